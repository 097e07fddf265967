"""The cut protocol: how the slots of a run are divided into steps, and a step among ranks. Knows no items."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import numpy as np

from penstock.plan.draws import Ints
from penstock.plan.order import Order, Planned
from penstock.plan.timeline import Timeline


class Cut(Protocol):
    """The slots of each step. All methods are pure functions: they may be called in any order, from any thread."""

    def slots(self, steps: Sequence[int]) -> list[Ints]:
        """Return the slots of the global batch of each step, in the order in which ranks take them."""
        ...

    def items(self, steps: Sequence[int], slots: Sequence[Ints]) -> Planned:
        """Return the items of some slots of each step, concatenated."""
        ...

    def step(self, slot: int) -> int | None:
        """Return the step whose global batch holds a slot; None if no step does."""
        ...

    def end_slot(self, step: int) -> int:
        """Return the slot after all slots that a step and the steps before it depend on."""
        ...

    def share(self, step: int, rank: int, world: int) -> tuple[int, int]:
        """Return the part of a global batch that a rank takes.

        Returns:
            The first column and the one after the last.

        Raises:
            ValueError: If the rank is not in the world, or the batch does not divide evenly among the ranks.
        """
        ...

    def unit_rows(self, step: int, rank: int, world: int) -> list[int]:
        """Return the number of rows of each unit that a rank takes: of each batch that it gets for a step."""
        ...

    def stand_in(self, slot: int, attempt: int) -> Planned | None:
        """Return the item that replaces a bad item; see ``Order.stand_in``."""
        ...

    def held_in(self, slot: int) -> list[int]:
        """Return the slots that have the item which the order has in a slot."""
        ...

    def residents(self, step: int, slots: Ints) -> list[tuple[int, int]]:
        """Return (source, group) of every group to keep while a step is made.

        Args:
            step: Step.
            slots: Slots of one rank's batch of the step.
        """
        ...


def rank_bounds(size: int, rank: int, world: int, *, uneven: bool = False) -> tuple[int, int]:
    """Return the part of a global batch that a rank takes.

    Args:
        size: Size of the global batch.
        rank: Rank.
        world: Number of ranks.
        uneven: Whether ranks may get parts of unequal sizes.

    Returns:
        The first column and the one after the last.

    Raises:
        ValueError: If the rank is not in the world, or the batch does not divide evenly and ``uneven`` is False.
    """
    if world < 1 or not 0 <= rank < world:
        raise ValueError(f"rank {rank} of a world of {world}: ranks count from 0 to world - 1")
    if size % world and not uneven:
        raise ValueError(
            f"a global batch of {size} does not divide over {world} ranks; "
            "choose a global_batch_size that does, or set uneven: true"
        )
    return rank * size // world, (rank + 1) * size // world


@dataclass(frozen=True, slots=True)
class ConstantCut:
    """Batches of consecutive slots, of a size that does not depend on the items.

    Attributes:
        order: Order of the run, which arranges the slots of a batch.
        timeline: Size of the global batch of each step.
        uneven: Whether ranks may get parts of unequal sizes. A short last batch of an epoch may always be uneven.
    """

    order: Order
    timeline: Timeline
    uneven: bool = False

    def slots(self, steps: Sequence[int]) -> list[Ints]:
        found: list[Ints] = []
        batches = [self.timeline.batch(step) for step in steps]
        for size, alike in groupby(batches, key=lambda batch: batch[1]):
            found += list(self.order.arrange([start for start, _ in alike], size))
        return found

    def items(self, steps: Sequence[int], slots: Sequence[Ints]) -> Planned:  # noqa: ARG002
        return self.order.look_up(slots[0] if len(slots) == 1 else np.concatenate(slots))

    def step(self, slot: int) -> int | None:
        return self.timeline.step(slot)

    def end_slot(self, step: int) -> int:
        return self.timeline.end_slot(step)

    def share(self, step: int, rank: int, world: int) -> tuple[int, int]:
        _, size = self.timeline.batch(step)
        return rank_bounds(size, rank, world, uneven=self.uneven or size < self.timeline.full_size(step))

    def unit_rows(self, step: int, rank: int, world: int) -> list[int]:
        low, high = self.share(step, rank, world)
        return [high - low]

    def stand_in(self, slot: int, attempt: int) -> Planned | None:
        return self.order.stand_in(slot, attempt)

    def held_in(self, slot: int) -> list[int]:
        return [slot]

    def residents(self, step: int, slots: Ints) -> list[tuple[int, int]]:  # noqa: ARG002
        return self.order.residents(slots)
