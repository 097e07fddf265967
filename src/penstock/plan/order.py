"""What stands in each slot of a run: the questions that every order answers, and the data they are about."""

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
        repeat: how often in a row each item comes.
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

    Slots count from 0. An order is a pure function of its arguments: questions may come in any order, from any thread.
    """

    @property
    def length(self) -> int | None:
        """Number of slots that hold an item; later ones are padding. None for an endless order."""
        ...

    def arrange(self, starts: Sequence[int], size: int) -> Ints:
        """The slots of some global batches of one size, in the order in which ranks take them.

        Args:
            starts: the first slot of each batch.
            size: the number of slots of each batch.

        Returns:
            An array of shape (len(starts), size). Each row is a permutation of start … start + size - 1.
        """
        ...

    def place(self, slot: int, start: int, size: int) -> int:
        """The column in which ``arrange`` puts a slot of the batch that begins at ``start``."""
        ...

    def look_up(self, slots: Ints) -> Planned:
        """What these slots hold; they may come in any order."""
        ...

    def stand_in(self, slot: int, attempt: int) -> Planned | None:
        """What takes the place of a slot's item when that is bad.

        Args:
            slot: the slot of the bad item.
            attempt: 1 for the first substitute, 2 for the next one if that is bad, too, and so on.

        Returns:
            One planned item, or None where the slot must stay empty.
        """
        ...

    def residents(self, slots: Ints) -> list[tuple[int, int]]:
        """(source, group) of every group that is resident when the last of these slots comes; at least one slot."""
        ...

    def slots_of(self, source: int, group: int, item: int, epoch: int) -> list[int]:
        """Every slot that holds an item in an epoch of its source: the inverse of ``look_up``."""
        ...

    def quotas(self, start: int, stop: int) -> npt.NDArray[np.float64] | None:
        """How many of the slots start … stop - 1 the weights grant to each source; None where weights do not apply."""
        ...
