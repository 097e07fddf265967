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
    """What the plan knows of a source: its name, the sizes of its groups, and how it is walked.

    Attributes:
        sizes: items per group, or an index that grows if the source is in file order.
        limit: at most this many items per epoch; None for all.
        repeat: how many times in a row each item comes.
        shuffled: whether items are shuffled by a rolling pool; otherwise they come in file order.

    Raises:
        ValueError: If a source whose index grows is to be shuffled.
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
            ValueError: If the index of the source still grows.
        """
        if not isinstance(self.sizes, np.ndarray):
            raise ValueError(
                f"source {self.name!r} is indexed while it is read, so the sizes of its groups are not known; "
                "read it in file order and without a number of passes, or index all of it first"
            )
        return self.sizes


@dataclass(frozen=True, slots=True)
class Planned:
    """What some slots hold, as parallel arrays. ``item`` counts within its group, ``group`` within its source.

    A padded slot of a finite run has -1 in all but ``slot``.
    """

    slot: Ints
    source: Ints
    epoch: Ints
    repeat: Ints
    group: Ints
    item: Ints


class Order(Protocol):
    """Which item each slot holds, and how the slots of a global batch are arranged.

    Slots count from 0. An order is a pure function of its arguments: it may be called in any order, from any thread.
    """

    @property
    def length(self) -> int | None:
        """Number of slots that hold an item; later ones are padding. None for an endless order."""
        ...

    def arrange(self, starts: Sequence[int], size: int) -> Ints:
        """Return the slots of some global batches of one size, in the order in which ranks take them.

        Args:
            starts: the first slot of each batch.
            size: the number of slots of each batch.

        Returns:
            An array of shape (len(starts), size). Each row is a permutation of start … start + size - 1.
        """
        ...

    def place(self, slot: int, start: int, size: int) -> int:
        """Return the column in which ``arrange`` puts a slot of the batch that begins at ``start``."""
        ...

    def look_up(self, slots: Ints) -> Planned:
        """Return what these slots hold. The slots may be in any order."""
        ...

    def stand_in(self, slot: int, attempt: int) -> Planned | None:
        """Return the item that replaces a bad item.

        Args:
            slot: the slot of the bad item.
            attempt: 1 for the first substitute, 2 for the next one if the first is bad as well, and so on.

        Returns:
            One planned item, or None where the slot must stay empty.
        """
        ...

    def residents(self, slots: Ints) -> list[tuple[int, int]]:
        """Return (source, group) of every group that is resident at the last of these slots.

        Args:
            slots: at least one slot.
        """
        ...

    def slots_of(self, source: int, group: int, item: int, epoch: int) -> list[int]:
        """Return every slot that holds an item in an epoch of its source: the inverse of ``look_up``."""
        ...

    def quotas(self, start: int, stop: int) -> npt.NDArray[np.float64] | None:
        """Return how many of the slots start … stop - 1 are granted to each source.

        Returns:
            One number per source, or None where weights do not apply.
        """
        ...
