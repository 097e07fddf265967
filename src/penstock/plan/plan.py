"""The plan: (step, rank, world) -> what the batch holds, and back from an item to where it comes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.plan.order import Order, Planned
from penstock.plan.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Use:
    """One use of an item."""

    epoch: int
    step: int
    rank: int
    slot: int  # in the rank's batch


def rank_bounds(size: int, rank: int, world: int, *, uneven: bool = False) -> tuple[int, int]:
    """The part of a global batch that a rank takes."""
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
        drop_last: whether a finite run leaves out its last, incomplete batch instead of padding it.
        uneven: whether ranks may get batches of unequal sizes.
    """

    order: Order
    drop_last: bool = False
    uneven: bool = False

    def batch(self, step: int, rank: int, world: int, timeline: Timeline) -> Planned:
        """What one rank's batch of a step holds. Only that rank's slots are looked up."""
        return self.batches([step], rank, world, timeline)

    def batches(self, steps: Sequence[int], rank: int, world: int, timeline: Timeline) -> Planned:
        """What one rank's batches of some steps hold, one behind the other; they must be of one size.

        Takes hardly longer than a single one.
        """
        end = self.steps(timeline)
        if end is not None and max(steps) >= end:
            raise IndexError(f"step {max(steps)}: the run has {end} steps")
        starts, sizes = zip(*map(timeline.batch, steps), strict=True)
        if len(set(sizes)) > 1:
            raise ValueError(f"steps {min(steps)} to {max(steps)} have batches of {sorted(set(sizes))} samples")
        low, high = rank_bounds(sizes[0], rank, world, uneven=self.uneven)
        return self.order.look_up(self.order.arrange(starts, sizes[0])[:, low:high].ravel())

    def rows(self, step: int, rank: int, world: int, timeline: Timeline) -> int:
        """How many rows one rank's batch of a step has."""
        low, high = rank_bounds(timeline.batch(step)[1], rank, world, uneven=self.uneven)
        return high - low

    def steps(self, timeline: Timeline) -> int | None:
        """How many steps the run has; None for an endless one."""
        length = self.order.length
        if length is None:
            return None
        last = timeline.step(length)
        start, _ = timeline.batch(last)
        return last + (start < length and not self.drop_last)

    def uses(
        self, source: int, group: int, item: int, epochs: range, *, world: int, timeline: Timeline
    ) -> Iterator[Use]:
        """Every planned use of an item in the given epochs, in order."""
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
