"""The plan: (step, rank, world) -> what the batch holds, and from an item back to the batches that hold it."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.plan.balance import deal_by_cost
from penstock.plan.bylength import ByLength, WindowCut
from penstock.plan.cut import ConstantCut, Cut
from penstock.plan.draws import Ints
from penstock.plan.order import Order, Planned
from penstock.plan.timeline import Timeline
from penstock.plan.windowtimeline import AnyTimeline, WindowTimeline


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


@dataclass(frozen=True, slots=True)
class Plan:
    """An order of slots, cut into batches and ranks.

    Attributes:
        order: Item of each slot.
        drop_last: Whether a finite run leaves out its incomplete last batch instead of padding it.
        uneven: Whether ranks may get batches of unequal sizes. A short last batch of an epoch may always be uneven.
        epoch: Samples per epoch, if no batch may hold samples of two epochs.
        windows: Plans batches by length; None for batches of a fixed size.
        costs: Function that returns the cost of each item, if ranks are to get about the same cost.
    """

    order: Order
    drop_last: bool = False
    uneven: bool = False
    epoch: int | None = None
    windows: ByLength | None = None
    costs: Callable[[Planned], Ints] | None = None

    def batch(self, step: int, rank: int, world: int, timeline: AnyTimeline) -> Planned:
        """Return the items of one rank's batch. Only the slots of that rank are looked up."""
        return self.batches([step], rank, world, timeline)

    def batches(self, steps: Sequence[int], rank: int, world: int, timeline: AnyTimeline) -> Planned:
        """Return the items of one rank's batches of some steps, concatenated. Hardly slower than a single batch.

        Raises:
            IndexError: If a step is after the end of the run.
        """
        end = self.steps(timeline)
        if end is not None and max(steps) >= end:
            raise IndexError(f"step {max(steps)}: the run has {end} steps")
        cut = self.cut(timeline)
        shares = [cut.share(step, rank, world) for step in steps]
        wholes = [self._dealt(cut, step, whole, world) for step, whole in zip(steps, cut.slots(steps), strict=True)]
        return cut.items(steps, [whole[low:high] for whole, (low, high) in zip(wholes, shares, strict=True)])

    def _dealt(self, cut: Cut, step: int, slots: Ints, world: int) -> Ints:
        """Return the slots of a global batch in the order in which ranks take them."""
        if self.costs is None or world == 1:
            return slots
        shares = [cut.share(step, rank, world) for rank in range(world)]
        costs = self.costs(cut.items([step], [slots]))
        dealt: Ints = slots[deal_by_cost(costs, [high - low for low, high in shares])]
        return dealt

    def rows(self, step: int, rank: int, world: int, timeline: AnyTimeline) -> int:
        """Return the number of rows of one rank's batch of a step."""
        low, high = self.cut(timeline).share(step, rank, world)
        return high - low

    def cut(self, timeline: AnyTimeline) -> Cut:
        """Return the slots of each step.

        Raises:
            ValueError: If the timeline has windows, and this plan knows no lengths.
        """
        if isinstance(timeline, Timeline):
            return ConstantCut(self.order, timeline, self.uneven)
        if self.windows is None:
            raise ValueError("these batches are cut by length, and the run has batches of a fixed size")
        return WindowCut(self.windows, timeline, self.uneven)

    def steps(self, timeline: AnyTimeline) -> int | None:
        """Return the number of steps of the run, or None for an endless run."""
        length = self.order.length
        if length is None:
            return None
        if isinstance(timeline, WindowTimeline):
            return timeline.count_steps(length)
        last = timeline.step(length)
        start, _ = timeline.batch(last)
        return last + (start < length and not self.drop_last)

    def uses(
        self,
        source: int,
        group: int,
        item: int,
        epochs: range,
        *,
        world: int,
        timeline: AnyTimeline,
        before: int | None = None,
    ) -> Iterator[Use]:
        """Yield every planned use of an item in the given epochs, in order, or only those before a slot of the run."""
        steps = self.steps(timeline)
        cut = self.cut(timeline)
        for epoch in epochs:
            own = self.order.slots_of(source, group, item, epoch)
            for slot in sorted(held for each in own for held in cut.held_in(each)):
                step = cut.step(slot)
                if step is None or (steps is not None and step >= steps) or (before is not None and slot >= before):
                    continue
                [slots] = cut.slots([step])
                place = int(np.flatnonzero(self._dealt(cut, step, slots, world) == slot)[0])
                rank = bisect_right(range(world), place, key=lambda each: cut.share(step, each, world)[1])
                yield Use(epoch, step, rank, place - cut.share(step, rank, world)[0])
