"""Where a record lies: it is an item of a group, and a group is a run of items of one segment of a file."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.plan.draws import Ints
from penstock.readers.errors import ContentError
from penstock.readers.records.fileindex import FileIndex
from penstock.readers.records.files.recordfile import BadRecord, Columns
from penstock.readers.records.judging import with_media
from penstock.store.extents import Extent


class RecordGroup(NamedTuple):
    """The items of a group.

    Attributes:
        file_index: Index of the file containing the group.
        segment: Segment containing the group.
        first: First item, counted within the segment.
        places: Places of the items in the file, shape (n, 2).
        rows: Numbers of the items among all records of the file.
        lengths: Tokens per item; empty if they were not counted.
        labels: Trained tokens per item; empty if they were not counted.
    """

    file_index: FileIndex
    segment: int
    first: int
    places: Ints
    rows: Ints
    lengths: Ints
    labels: Ints

    @property
    def path(self) -> str:
        return self.file_index.file.path

    def extents(self) -> Sequence[Extent]:
        """Return the bytes to fetch for all items. Never waits."""
        return self.file_index.file.extents(self.places)


@dataclass(frozen=True, slots=True)
class Record:
    """One record. It is read when it is loaded.

    Attributes:
        about: What the pipeline says of the source.
        group: Group containing the record.
        item: Number of the record in its group.
    """

    about: Any
    group: RecordGroup
    item: int

    @property
    def path(self) -> str:
        """Path of the file containing the record."""
        return self.group.path

    @property
    def row(self) -> int:
        """Number of the record in its file, items or not."""
        return int(self.group.rows[self.item])

    @property
    def length(self) -> int:
        """Number of tokens; 0 if they were not counted."""
        return int(self.group.lengths[self.item]) if len(self.group.lengths) else 0

    def load(self) -> Columns:
        """Return the record as its file has it.

        Raises:
            ContentError: If it can't be parsed, or the file is damaged.
        """
        index = self.group.file_index
        first, second = self.group.places[self.item].tolist()
        try:
            return with_media(index.file.load((first, second)), index.medium)
        except BadRecord as error:  # the index would have found it: the file has changed
            raise ContentError(self.path, str(self.row), str(error)) from None

    def kept(self) -> bytes | None:
        """Return what the index keeps of the record, such as its tokens; None for nothing: load it then."""
        group = self.group
        return group.file_index.kept_items.get(group.segment, group.first + self.item)

    def extents(self) -> Sequence[Extent]:
        """Return the bytes to fetch for the record. Never waits."""
        return self.group.file_index.file.extents(self.group.places[self.item : self.item + 1])
