"""The order protocol: which item each slot of a run holds. Knows no files and no batches of a rank."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.plan.draws import Ints
from penstock.plan.growing import Growing


@dataclass(frozen=True, slots=True)
class Source:
    """A source as the plan knows it.

    Attributes:
        name: Name of the source.
        sizes: Items per group, or a growing index if the source is in file order.
        limit: Maximum number of items per epoch; None for all.
        repeat: Number of times in a row that each item comes.
        shuffled: Whether items are shuffled by a rolling pool; otherwise they come in file order.

    Raises:
        ValueError: If a source with a growing index is to be shuffled.
    """

    name: str
    sizes: Ints | Growing
    limit: int | None = None
    repeat: int = 1
    shuffled: bool = True

    def __post_init__(self) -> None:
        if self.shuffled:
            self.known_sizes()

    def known_sizes(self) -> Ints:
        """Return the number of items of each group.

        Raises:
            ValueError: If the index of the source is still growing.
        """
        if not isinstance(self.sizes, np.ndarray):
            raise ValueError(
                f"source {self.name!r} is indexed while it is read, so the sizes of its groups are not known; "
                "read it in file order and without a number of passes, or index all of it first"
            )
        return self.sizes


@dataclass(frozen=True, slots=True)
class Planned:
    """The items of some slots, as parallel arrays. A padded slot has -1 in all arrays but ``slot``.

    Attributes:
        slot: Slot of the run.
        source: Number of the source.
        epoch: Epoch of the source.
        repeat: Number of the use, of several in a row, from 0.
        group: Number of the group in its source.
        item: Number of the item in its group.
    """

    slot: Ints
    source: Ints
    epoch: Ints
    repeat: Ints
    group: Ints
    item: Ints


class Order(Protocol):
    """The item of each slot, and the arrangement of the slots of a global batch.

    Slots count from 0. All methods are pure functions: they may be called in any order, from any thread.
    """

    @property
    def length(self) -> int | None:
        """Number of slots that hold an item; later ones are padding. None for an endless order."""
        ...

    def arrange(self, starts: Sequence[int], size: int) -> Ints:
        """Return the slots of global batches of one size, in the order in which ranks take them.

        Args:
            starts: First slot of each batch.
            size: Number of slots of each batch.

        Returns:
            Slots, shape (len(starts), size). Each row is a permutation of start … start + size - 1.
        """
        ...

    def look_up(self, slots: Ints) -> Planned:
        """Return the items of slots, which may be in any order."""
        ...

    def stand_in(self, slot: int, attempt: int) -> Planned | None:
        """Return the item that replaces a bad item.

        Args:
            slot: Slot of the bad item.
            attempt: Number of the substitute, from 1. The next one is used if a substitute is bad as well.

        Returns:
            One planned item, or None if the slot must stay empty.
        """
        ...

    def residents(self, slots: Ints) -> list[tuple[int, int]]:
        """Return (source, group) of every group that is resident at the last of some slots.

        Args:
            slots: One or more slots.
        """
        ...

    def slots_of(self, source: int, group: int, item: int, epoch: int) -> list[int]:
        """Return every slot that holds an item in an epoch of its source: the inverse of ``look_up``."""
        ...

    def quotas(self, start: int, stop: int) -> npt.NDArray[np.float64] | None:
        """Return the share of each source in the slots start … stop - 1, in samples.

        Returns:
            One number per source, or None if weights do not apply.
        """
        ...
