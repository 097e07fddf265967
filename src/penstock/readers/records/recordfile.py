"""What every file of records offers: its records, segment by segment, and each record by its place."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from penstock.plan.draws import Ints
from penstock.readers.records.content import BadRecord
from penstock.store.extents import Extent

SEGMENTS = 1
"""The version of how files are cut into segments. The order of a shuffled run depends on it: fingerprints have it."""

Place = tuple[int, int]
"""Where a record lies; two numbers that only its file understands."""


class Segment(NamedTuple):
    """Records of a file that follow one another.

    Attributes:
        places: of the records, one row of two numbers each.
        mark: with which the next segment is found; None after the last one.
    """

    places: Ints
    mark: int | None


class Weight(NamedTuple):
    """What the records of a file take in the cache, about.

    Attributes:
        total: bytes of all of them; 0 if the file is read in place.
        unit: bytes that enter the cache as one.
    """

    total: int
    unit: int


NO_WEIGHT = Weight(0, 1)


class RecordFile(Protocol):
    """One file of records. Any number of threads may use it.

    Attributes:
        path: of the file in its store.
        layout: names how records are found, with the version of that.
    """

    @property
    def path(self) -> str: ...

    @property
    def layout(self) -> str: ...

    def segment(self, number: int, mark: int) -> Segment:
        """Find the records of a segment. May wait.

        Args:
            number: of the segment, from 0.
            mark: that of the segment before; 0 for the first.

        Raises:
            ContentError: If the file is damaged.
        """
        ...

    def records(self, places: Ints, leave_out: Sequence[str]) -> Iterator[dict[str, Any] | BadRecord]:
        """Yield the records at some places of one segment, for an index. May wait.

        Args:
            places: of the records.
            leave_out: columns whose bytes are not needed, where leaving them out saves time. What is there of them
                still says which records have them.
        """
        ...

    def load(self, place: Place) -> dict[str, Any]:
        """Return one record. May wait.

        Raises:
            BadRecord: If it can't be parsed.
            ContentError: If the file is damaged.
        """
        ...

    def extents(self, places: Ints) -> Sequence[Extent]:
        """Return what has to be fetched for records of one segment, in order. Never waits."""
        ...

    def count(self) -> int | None:
        """Return the number of segments if they can be found in any order, else None. May wait."""
        ...

    def weight(self) -> Weight:
        """Return what the records take in the cache. May ask the store, once per file."""
        ...

    def close(self) -> None: ...
