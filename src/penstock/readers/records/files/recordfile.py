"""What every file of records offers: its records, segment by segment, and each record by its place. Knows no format."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from penstock.plan.draws import Ints
from penstock.store.extents import Extent

SEGMENTS = 1
"""Version of how files are cut into segments. The order of a shuffled run depends on it: fingerprints contain it."""

RECORD_BYTES = 64 << 20  # a longer record is refused
TOO_LONG = f"longer than {RECORD_BYTES >> 20} MiB"

Place = tuple[int, int]
"""Where a record lies in its file: two numbers that only the file understands."""


Columns = dict[str, Any]
"""A record as its file has it: values by column."""


class BadRecord(ValueError):
    """A record can't be used. The message is a short phrase that is counted, such as ``not JSON``."""


class FileSegment(NamedTuple):
    """Consecutive records of a file.

    Attributes:
        places: Record places, shape (n, 2).
        mark: Number by which the next segment is found; None after the last one.
    """

    places: Ints
    mark: int | None


class Weight(NamedTuple):
    """Approximate size of a file's records in the cache.

    Attributes:
        total: Bytes of all records; 0 if the file is read in place.
        unit: Bytes that enter the cache as one.
    """

    total: int
    unit: int


NO_WEIGHT = Weight(0, 1)


class RecordFile(ABC):
    """One file of records. Any number of threads may use it.

    It holds nothing open: ``kinds.RecordFiles`` closes what files share.

    Attributes:
        path: Path of the file in its store.
        layout: Name and version of how records are found. A kept index is valid for one layout.
    """

    path: str
    layout: str

    @abstractmethod
    def segment(self, number: int, mark: int) -> FileSegment:
        """Find the records of a segment. May wait.

        Args:
            number: Number of the segment, from 0.
            mark: Mark that the previous segment returned; 0 for the first.

        Raises:
            ContentError: If the file is damaged.
        """

    @abstractmethod
    def records(self, places: Ints, leave_out: Sequence[str]) -> Iterator[Columns | BadRecord]:
        """Yield records of one segment, for an index. May wait.

        Args:
            places: Record places, shape (n, 2).
            leave_out: Columns whose bytes are not needed. A file may omit the bytes to save time, but a record must
                still show whether it has the column.
        """

    def whole_records(self, places: Ints) -> Iterator[Columns | BadRecord]:
        """Yield the records of one segment as ``load`` returns them. May wait."""
        return self.records(places, ())

    @abstractmethod
    def load(self, place: Place) -> Columns:
        """Return one record. May wait.

        Raises:
            BadRecord: If it can't be parsed.
            ContentError: If the file is damaged.
        """

    @abstractmethod
    def extents(self, places: Ints) -> Sequence[Extent]:
        """Return the bytes to fetch for records of one segment, given in order. Never waits."""

    @abstractmethod
    def weight(self) -> Weight:
        """Return the size of the records in the cache. May ask the store, once per file."""

    def count(self) -> int | None:
        """Return the number of segments if they can be found in any order, else None. May wait."""
        return None
