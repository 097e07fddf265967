"""The plan: (step, rank, world) -> what the batch holds, and from an item back to the batches that hold it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from penstock.plan.order import Order, Planned
from penstock.plan.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Use:
    """One use of an item.

    Attributes:
        epoch: Epoch of the source.
        step: Step of the batch.
        rank: Rank of the batch.
        slot: Place in the rank's batch.
    """

    epoch: int
    step: int
    rank: int
    slot: int


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
class Plan:
    """An order of slots, cut into batches and ranks.

    Attributes:
        order: Item of each slot.
        drop_last: Whether a finite run leaves out its incomplete last batch instead of padding it.
        uneven: Whether ranks may get batches of unequal sizes. A short last batch of an epoch may always be uneven.
        epoch: Samples per epoch, if no batch may hold samples of two epochs.
    """

    order: Order
    drop_last: bool = False
    uneven: bool = False
    epoch: int | None = None

    def batch(self, step: int, rank: int, world: int, timeline: Timeline) -> Planned:
        """Return the items of one rank's batch. Only the slots of that rank are looked up."""
        return self.batches([step], rank, world, timeline)

    def batches(self, steps: Sequence[int], rank: int, world: int, timeline: Timeline) -> Planned:
        """Return the items of one rank's batches of some steps, concatenated. Hardly slower than a single batch.

        Raises:
            IndexError: If a step is after the end of the run.
        """
        end = self.steps(timeline)
        if end is not None and max(steps) >= end:
            raise IndexError(f"step {max(steps)}: the run has {end} steps")
        slots = []
        for size, same in groupby(steps, key=lambda step: timeline.batch(step)[1]):
            alike = list(same)
            low, high = self._bounds(alike[0], rank, world, timeline)
            starts = [timeline.batch(step)[0] for step in alike]
            slots.append(self.order.arrange(starts, size)[:, low:high].ravel())
        return self.order.look_up(slots[0] if len(slots) == 1 else np.concatenate(slots))

    def rows(self, step: int, rank: int, world: int, timeline: Timeline) -> int:
        """Return the number of rows of one rank's batch of a step."""
        low, high = self._bounds(step, rank, world, timeline)
        return high - low

    def _bounds(self, step: int, rank: int, world: int, timeline: Timeline) -> tuple[int, int]:
        _, size = timeline.batch(step)
        return rank_bounds(size, rank, world, uneven=self.uneven or size < timeline.full_size(step))

    def steps(self, timeline: Timeline) -> int | None:
        """Return the number of steps of the run, or None for an endless run."""
        length = self.order.length
        if length is None:
            return None
        last = timeline.step(length)
        start, _ = timeline.batch(last)
        return last + (start < length and not self.drop_last)

    def uses(
        self, source: int, group: int, item: int, epochs: range, *, world: int, timeline: Timeline
    ) -> Iterator[Use]:
        """Yield every planned use of an item in the given epochs, in order."""
        steps = self.steps(timeline)
        for epoch in epochs:
            for slot in sorted(self.order.slots_of(source, group, item, epoch)):
                step = timeline.step(slot)
                if steps is not None and step >= steps:
                    continue
                start, size = timeline.batch(step)
                place = self.order.place(slot, start, size)
                rank = ((place + 1) * world - 1) // size
                yield Use(epoch, step, rank, place - rank * size // world)
