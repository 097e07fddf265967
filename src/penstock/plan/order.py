"""The order protocol: which item each slot of a run holds. Knows no files and no batches of a rank."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.plan.draws import Ints


@dataclass(frozen=True, slots=True)
class Source:
    """What the plan knows of a source: its name, the sizes of its groups, and how it is walked.

    Attributes:
        limit: at most this many items per epoch; None for all.
        repeat: how many times in a row each item comes.
    """

    name: str
    sizes: Ints
    limit: int | None = None
    repeat: int = 1


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
        """Return how many of the slots start … stop - 1 the weights grant to each source.

        Returns:
            One number per source, or None where weights do not apply.
        """
        ...
