"""The reader protocol: from planned uses of items to records. Knows no file format and nothing of batches.

wants ──► bytes that will be needed       called ahead of time, by the prefetcher; never blocks
locate ─► where an item lies (a place)    called by the thread that makes the batch; may wait for metadata
read ───► its record                      opens nothing: the recipe reads the bytes of a record

``Reader`` lists what every reader has. ``BaseReader`` declares what a reader may have in addition, with defaults.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.plan.draws import Ints, Words
from penstock.readers.errors import ContentError
from penstock.store.extents import Extent

P = TypeVar("P")
R = TypeVar("R")

Evidence = Literal["sha256", "crc32", "version"]
"""What identifies the content of items: checksums of their own, or versions (ETags) of the objects that hold them."""


class Uses(NamedTuple):
    """Planned uses of items of one part, as parallel arrays: one element per sample.

    Attributes:
        source: Number of the source in the part's manifest.
        group: Number of the group in its source.
        row: Number of the item in the part's manifest.
        epoch: Epoch of the source, from 0.
        repeat: Number of this use among several in a row, from 0.
        draw: 64 random bits of (seed, source, epoch, item, repeat), the same in every process.
        slot: Slot of the run; None if it is unknown.

    Examples:
        >>> import numpy as np
        >>> import penstock
        >>> numbers = np.arange(3)
        >>> uses = penstock.Uses(numbers, numbers, numbers, numbers, numbers, draw=numbers.astype(np.uint64))
        >>> uses.at(slice(2, None)).row
        array([2])
    """

    source: Ints
    group: Ints
    row: Ints
    epoch: Ints
    repeat: Ints
    draw: Words
    slot: Ints | None = None

    def at(self, index: NDArray[np.integer] | slice) -> "Uses":
        """Return some of the uses."""
        return Uses(*(None if column is None else column[index] for column in self))  # type: ignore[arg-type]


class Reader(Protocol[P, R]):
    """Reads the items of one part. Any number of threads may call it at the same time.

    A reader must pickle, without its open files and clients: another process opens its own.

    Examples:
        >>> import penstock
        >>> feed = penstock.open("run.yaml")
        >>> reader = feed.catalog.reader(0)
        >>> reader.find("bengali_0_1", 0)
        [17]
    """

    def wants(self, uses: Uses) -> list[Sequence[Extent]]:
        """Return the bytes that each use will need, as far as they are known. Must not block.

        Called again until the sample is made. If metadata must be fetched first, return the extents of the metadata,
        and those of the data in a later call.

        Returns:
            Extents of each use.
        """
        ...

    def resident(self, source: int, group: int) -> Sequence[Extent]:
        """Return what is needed while a group is resident.

        Returns:
            Extents to fetch. An extent with ``start == end`` is not fetched; its unit is only pinned.
        """
        ...

    def locate(self, uses: Uses) -> "list[P | ContentError]":
        """Return where each item lies. May wait for metadata.

        Returns:
            Place of each use, or the error of an item that cannot be used.
        """
        ...

    def read(self, places: Sequence[P]) -> "list[R | ContentError]":
        """Return the records at some places.

        Args:
            places: Places that ``locate`` returned.

        Returns:
            Record at each place, or the error of an item that cannot be used.
        """
        ...

    def names(self, uses: Uses) -> Sequence[str | list[str]]:
        """Return the id of each item; a list of ids for a pack. An id need only be unique in its group."""
        ...

    def find(self, name: str, epoch: int) -> list[int]:
        """Return the rows of the items with a name.

        Args:
            name: Id, or ``group:id``.
            epoch: Epoch of the source, for a reader whose ids change with it.
        """
        ...

    def close(self) -> None:
        """Close what is open. The next call opens it again."""
        ...


class BaseReader:
    """Optional capabilities of a reader, with the defaults of one that lacks them. Inherit from it to override one.

    Attributes:
        counted: Whether ``counts`` returns amounts. If not, it is not called.
        has_members: Whether items are packs of samples, which ``exclude`` leaves out one by one.
        shows_neighbours: Whether an item shows others of its group, so that they are only excluded together.
        keeps_rows: Whether items that were read stay in memory, so that ``wants`` no longer names their bytes.
    """

    counted: bool = False
    has_members: bool = False
    shows_neighbours: bool = False
    keeps_rows: bool = False

    def assume_read(self, uses: Uses) -> None:
        """Treat items as read, for a forecast that reads nothing. Only called if ``keeps_rows``."""

    def unforeseen(self) -> str | None:
        """Return which bytes ``wants`` does not name before they are needed, for a forecast; None if it names all."""
        return None

    def group_bytes(self, source: int) -> Ints | None:  # noqa: ARG002
        """Return the approximate size in the cache of each group of a source, in bytes. May ask stores.

        Returns:
            Size of each group; None if it is unknown: the feed then adds up the extents of groups.
        """
        return None

    def counts(self, uses: Uses) -> Mapping[str, Ints]:  # noqa: ARG002
        """Return amounts that are known before items are read, such as tokens.

        Every rank asks for the samples of all ranks. A batch has the sum over all ranks as ``global_<name>``.

        Returns:
            Amounts by name, one number per use.
        """
        return {}

    def evidence(self) -> Sequence[Evidence]:
        """Return what is known of the content of items without reading it, strongest first. May ask stores.

        By default nothing but their ids.
        """
        return ()

    def contents(self, uses: Uses, evidence: Evidence) -> Sequence[str]:  # noqa: ARG002
        """Return what identifies the content of each use, for receipts. Only called with what ``evidence`` returned.

        Args:
            uses: Uses of items.
            evidence: Kind of checksum to return.
        """
        return [""] * len(uses.row)

    def members(self, name: str) -> list[int]:  # noqa: ARG002
        """Return the numbers of the samples with a name: an id, ``group:id`` or a group. Only if ``has_members``."""
        return []

    def pack_of(self, member: int, epoch: int) -> int:
        """Return the row of the pack that holds a sample in an epoch. Only called if ``has_members``."""
        raise NotImplementedError

    def exclude(self, members: Mapping[int, int]) -> Mapping[int, int]:  # noqa: ARG002
        """Leave samples out of packs. Only called if ``has_members``.

        Args:
            members: Slot of the run since which each sample is left out, by its number.

        Returns:
            Groups without a sample that is left, and the slot since which they have none.
        """
        return {}

    def costs(self, uses: Uses) -> Ints | None:  # noqa: ARG002
        """Return what each item costs a model, in any unit, for ``balance``; None if the reader does not know it."""
        return None

    def lengths(self, rows: Ints, unit: str) -> Ints | None:  # noqa: ARG002
        """Return the lengths of items as they are known before items are read, for batches by length.

        Args:
            rows: Rows of items in the part's manifest.
            unit: ``seconds``, which are counted in thousandths, or ``tokens``.

        Returns:
            Length of each item, 0 if it is unknown; None if the reader knows no lengths in this unit.
        """
        return None


_DEFAULTS = BaseReader()


def optional_methods(reader: Reader[Any, Any]) -> BaseReader:
    """Return the reader itself if it is a ``BaseReader``, else the defaults."""
    return reader if isinstance(reader, BaseReader) else _DEFAULTS


def require_reader(reader: object) -> None:
    """Check that an object is a reader.

    Raises:
        TypeError: If a method is missing, or an optional one is not declared.
    """
    kind = type(reader).__name__
    missing = [name for name in _methods(Reader) if not callable(getattr(reader, name, None))]
    if missing:
        needed = _listed(_methods(Reader))
        raise TypeError(f"the reader {kind} has no method {_listed(missing)}; a reader needs {needed}")
    undeclared = [name for name in _methods(BaseReader) if callable(getattr(reader, name, None))]
    if undeclared and not isinstance(reader, BaseReader):
        raise TypeError(
            f"the reader {kind} has the optional method {_listed(undeclared)}, which is only called if the class "
            "inherits from penstock.readers.BaseReader; inherit from it, or rename the method"
        )


def _methods(kind: type) -> list[str]:
    return [name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")]


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
