"""The plan: (step, rank, world) -> what the batch holds, and from an item back to the batches that hold it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.plan.cut import ConstantCut, Cut
from penstock.plan.draws import Ints
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
        cut = self.cut(timeline)
        shares = [cut.share(step, rank, world) for step in steps]
        slots = [whole[low:high] for whole, (low, high) in zip(cut.slots(steps), shares, strict=True)]
        return self.order.look_up(slots[0] if len(slots) == 1 else np.concatenate(slots))

    def rows(self, step: int, rank: int, world: int, timeline: Timeline) -> int:
        """Return the number of rows of one rank's batch of a step."""
        low, high = self.cut(timeline).share(step, rank, world)
        return high - low

    def cut(self, timeline: Timeline) -> Cut:
        """Return the slots of each step."""
        return ConstantCut(self.order, timeline, self.uneven)

    def stand_in(self, slot: int, attempt: int, timeline: Timeline) -> Planned | None:  # noqa: ARG002
        """Return the item that replaces a bad item; see ``Order.stand_in``."""
        return self.order.stand_in(slot, attempt)

    def residents(self, slots: Ints, timeline: Timeline) -> list[tuple[int, int]]:  # noqa: ARG002
        """Return (source, group) of every group that is resident at the last of some slots."""
        return self.order.residents(slots)

    def steps(self, timeline: Timeline) -> int | None:
        """Return the number of steps of the run, or None for an endless run."""
        length = self.order.length
        if length is None:
            return None
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
        timeline: Timeline,
        before: int | None = None,
    ) -> Iterator[Use]:
        """Yield every planned use of an item in the given epochs, in order, or only those before a slot of the run."""
        steps = self.steps(timeline)
        cut = self.cut(timeline)
        for epoch in epochs:
            for slot in sorted(self.order.slots_of(source, group, item, epoch)):
                step = cut.step(slot)
                if (steps is not None and step >= steps) or (before is not None and slot >= before):
                    continue
                [slots] = cut.slots([step])
                place = int(np.flatnonzero(slots == slot)[0])
                rank = ((place + 1) * world - 1) // len(slots)
                yield Use(epoch, step, rank, place - rank * len(slots) // world)
