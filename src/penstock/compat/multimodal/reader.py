"""Items -> records of a dataset, with the pass that each is read in; see ``readers.reader.Reader``."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.manifest.manifest import Manifest
from penstock.readers.errors import ContentError
from penstock.readers.reader import Uses
from penstock.readers.records.reader import RecordReader
from penstock.readers.records.record import Record
from penstock.readers.records.sourceindex import SourceIndex
from penstock.store.extents import Extent


@dataclass(frozen=True, slots=True)
class Row:
    """A record of a dataset.

    Attributes:
        record: Record, not read yet.
        walk: Number of the pass over its source.
    """

    record: Record
    walk: int


class DatasetReader(RecordReader):
    """Reads the records of one dataset, which may begin at a later item than the first.

    Args:
        manifest: Items of the dataset.
        index: Index of the dataset.
        about: What the recipe has to know of the dataset.
        first: Item that comes first; those before it come at the end of a pass. Only in file order.
    """

    def __init__(self, manifest: Manifest, index: SourceIndex, about: Any, first: int = 0) -> None:
        super().__init__(manifest, index, about)
        self.first = first

    def __reduce__(self) -> tuple[Any, ...]:
        return DatasetReader, (self._manifest, self._index, self.about, self.first)

    @property
    def rejected(self) -> dict[str, int]:
        """Number of records left out, by reason, as far as the index is known."""
        return dict(self._index.reasons)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the records that are items, in the order of the files."""
        starts = self._index.starts(1)
        group = 0
        while group + 1 < len(starts):
            found = self._index.group(group)
            for item in range(int(starts[group + 1] - starts[group])):
                yield Record(self.about, found, item).load()
            group += 1
            starts = self._index.starts(int(starts[group]) + 1)

    def _moved(self, uses: Uses) -> Uses:
        """Return the uses of the items that take the place of others because the dataset begins later."""
        if not self.first:
            return uses
        nth = uses.row + self.first
        if uses.epoch.any():  # the index is complete where a second pass begins
            self._index.finish()
            nth += uses.epoch * int(self._index.starts(0)[-1])
        starts = self._index.starts(int(nth.max(initial=0)) + 1)
        walk, row = np.divmod(nth, int(starts[-1])) if self._index.complete else (np.zeros_like(nth), nth)
        return uses._replace(group=starts.searchsorted(row, side="right") - 1, row=row, epoch=walk)

    def wants(self, uses: Uses) -> list[Sequence[Extent]]:
        return super().wants(self._moved(uses))

    def locate(self, uses: Uses) -> list[Any]:
        moved = self._moved(uses)
        return [Row(record, walk) for record, walk in zip(self.records_of(moved), moved.epoch.tolist(), strict=True)]

    def names(self, uses: Uses) -> list[str]:
        return super().names(self._moved(uses))

    def find(self, name: str, epoch: int) -> list[int]:
        found = super().find(name, epoch)
        if not self.first or not found:
            return found
        self._index.finish()
        items = int(self._index.starts(0)[-1])
        return [(row - self.first) % items for row in found]

    def read(self, places: Sequence[Any]) -> list[Any | ContentError]:
        return list(places)
