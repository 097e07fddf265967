"""The reader protocol: from planned uses of items to records. Knows no file format and nothing of batches.

wants ──► the bytes that will be needed      called ahead of time, by the prefetcher; never blocks
locate ─► where an item lies (a place)       called by the thread that makes the batch; may wait for metadata
read ───► its record                         opens nothing: the bytes of a record are read by the recipe
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from penstock.plan.draws import Ints, Words
from penstock.readers.errors import ContentError
from penstock.store.extents import Extent

P = TypeVar("P")
R = TypeVar("R")


class Uses(NamedTuple):
    """Planned uses of items of one part, as parallel arrays: one element per sample.

    Attributes:
        source: number of the source in the part's manifest.
        group: number of the group in its source.
        row: number of the item in the part's manifest.
        epoch: the epoch of the source, from 0.
        repeat: which of several uses in a row this is, from 0.
        draw: 64 random bits of (seed, source, epoch, item, repeat). They do not depend on the process that makes the
            sample.
    """

    source: Ints
    group: Ints
    row: Ints
    epoch: Ints
    repeat: Ints
    draw: Words

    def at(self, index: NDArray[np.integer] | slice) -> "Uses":
        """Return some of the uses."""
        return Uses(*(column[index] for column in self))  # type: ignore[arg-type]


@runtime_checkable
class Weighing(Protocol):
    """A reader that can say how much its groups take in the cache. Optional: otherwise each group is asked for."""

    def group_bytes(self, source: int) -> Ints:
        """Return about how many bytes each group of a source takes in the cache. May ask stores."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A reader that may know amounts of its items before they are read, such as tokens. Optional.

    Attributes:
        counted: whether it knows them. If not, ``counts`` is not called.
    """

    @property
    def counted(self) -> bool: ...

    def counts(self, uses: Uses) -> Mapping[str, Ints]:
        """Return amounts by name, one number per use. A batch gets the sum over all ranks, as ``global_<name>``.

        Every rank asks for the samples of all ranks.
        """
        ...


class Reader(Protocol[P, R]):
    """Reads the items of one part. Any number of threads may call it at the same time.

    A reader must pickle, without its open files and clients: another process opens its own.
    """

    def wants(self, uses: Uses) -> list[Sequence[Extent]]:
        """Return the bytes that each use will need, as far as they are known. Must not block.

        It is called again until the use is made. If metadata must be fetched first, return the extents of the metadata,
        and those of the data in a later call.

        Returns:
            The extents of each use.
        """
        ...

    def resident(self, source: int, group: int) -> Sequence[Extent]:
        """Return what is needed while a group is resident.

        Returns:
            The extents to fetch. An extent with ``start == end`` is not fetched; its unit is only pinned.
        """
        ...

    def locate(self, uses: Uses) -> "list[P | ContentError]":
        """Return where each item lies. May wait for metadata.

        Returns:
            One place per use, or the error of an item that cannot be used.
        """
        ...

    def read(self, places: Sequence[P]) -> "list[R | ContentError]":
        """Return the records at some places.

        Args:
            places: places that ``locate`` returned.

        Returns:
            One record per place, or the error of an item that cannot be used.
        """
        ...

    def names(self, uses: Uses) -> Sequence[str | list[str]]:
        """Return the ids of the items; of a pack, those of its members. An id need only be unique in its group."""
        ...

    def find(self, name: str, epoch: int) -> list[int]:
        """Return the rows of the items with a name.

        Args:
            name: an id, or ``group:id``.
            epoch: the epoch of the source, for a reader whose ids change with it.
        """
        ...

    def close(self) -> None:
        """Close what is open. The next call opens it again."""
        ...
