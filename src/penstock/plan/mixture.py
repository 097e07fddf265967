"""The source of each slot, and the number of earlier draws from it. Mixtures may change at given slots. Knows no items.

With P lanes, slot s belongs to lane s mod P. A lane reads the period with stride P, from its own phase. Its counts are
those of the strided schedule minus the counts before its phase. So every look-up and its inverse are O(1).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.plan.draws import Ints
from penstock.plan.schedule import Schedule, make_schedule


@dataclass(frozen=True, slots=True)
class _Segment:
    """The slots from ``start`` on, under one schedule.

    Attributes:
        start: First slot.
        schedule: Schedule of all slots.
        strided: Schedule that lanes read.
        phase: Phase of each lane in the strided schedule.
        skipped: Draws of the strided schedule before the phase of a lane, [lane, source].
        base: Draws before this segment, [lane, source]; those of all lanes together in row -1.
    """

    start: int
    schedule: Schedule
    strided: Schedule
    phase: Ints
    skipped: Ints
    base: Ints


class Mixture:
    """The source of every slot of a run.

    Args:
        changes: (first slot, slots per source in a period) of every mixture. The first begins at slot 0.
        lanes: Number of lanes.
    """

    def __init__(self, changes: Sequence[tuple[int, tuple[int, ...]]], lanes: int) -> None:
        self.lanes = lanes
        self._segments: list[_Segment] = []
        base = np.zeros((lanes + 1, len(changes[0][1])), dtype=np.int64)
        starts = [start for start, _ in changes]
        for (start, counts), stop in zip(changes, [*starts[1:], None], strict=True):
            segment = _segment(start, make_schedule(counts), lanes, base)
            self._segments.append(segment)
            if stop is not None:
                base = base + np.stack(
                    [_drawn_in(segment, lanes, stop - start, lane) for lane in [*range(lanes), None]]
                )
        self._starts = np.array(starts)

    def draws(self, slots: Ints) -> tuple[Ints, Ints, Ints]:
        """Return what each slot draws.

        Returns:
            Three arrays: the source, the number of earlier draws from it, and the number of these in the same lane.
        """
        source = np.empty_like(slots)
        common = np.empty_like(slots)
        own = np.empty_like(slots)
        which = np.searchsorted(self._starts, slots, side="right") - 1
        for i in np.unique(which).tolist():
            here = which == i
            slot = slots[here]
            segment = self._segments[i]
            plain = segment.schedule
            strided = segment.strided
            turns, place = np.divmod(slot - segment.start, plain.period)
            drawn = plain.source[place]
            source[here] = drawn
            common[here] = segment.base[-1, drawn] + turns * plain.counts[drawn] + plain.rank[place]
            lane = slot % self.lanes
            nth = (slot - segment.start - (lane - segment.start) % self.lanes) // self.lanes + segment.phase[lane]
            turns, place = np.divmod(nth, strided.period)
            before = segment.base[lane, drawn] - segment.skipped[lane, drawn]
            own[here] = before + turns * strided.counts[drawn] + strided.rank[place]
        return source, common, own

    def drawn(self, stop: int, lane: int | None) -> tuple[list[int], Ints]:
        """Return what was drawn before a slot.

        Args:
            stop: Slot before which draws are counted.
            lane: Lane whose draws are counted; None for all lanes.

        Returns:
            The sources that slot ``stop - 1`` may draw from, and the number of draws before ``stop`` from each source.
        """
        segment = self._segments[int(np.searchsorted(self._starts, max(1, stop))) - 1]
        row = -1 if lane is None else lane
        drawn = segment.base[row] + _drawn_in(segment, self.lanes, stop - segment.start, lane)
        return np.flatnonzero(segment.schedule.counts).tolist(), drawn

    def quotas(self, start: int, stop: int) -> npt.NDArray[np.float64]:
        """Return the share of each source in the slots start … stop - 1, by weight."""
        total = np.zeros(len(self._segments[0].schedule.counts))
        ends = [*self._starts[1:].tolist(), stop]
        for segment, end in zip(self._segments, ends, strict=True):
            slots = max(0, min(end, stop) - max(segment.start, start))
            total += slots * segment.schedule.counts / segment.schedule.period
        return total

    def slot(self, source: int, draw: int, lane: int | None) -> int | None:
        """Return the slot of a draw from a source, or None if it never comes.

        Args:
            source: Number of the source.
            draw: Number of the draw, from 0.
            lane: Lane whose draws are counted; None for all lanes.
        """
        row = -1 if lane is None else lane
        for segment in reversed(self._segments):
            nth = draw - int(segment.base[row, source])
            if nth >= 0:
                break
        count = int(segment.schedule.counts[source])
        if not count:
            return None
        if lane is None:
            turns, rank = divmod(nth, count)
            place = int(segment.schedule.turns[segment.schedule.first[source] + rank])
            return segment.start + turns * segment.schedule.period + place
        turns, rank = divmod(nth + int(segment.skipped[lane, source]), count)
        place = int(segment.strided.turns[segment.strided.first[source] + rank])
        own = turns * segment.strided.period + place - int(segment.phase[lane])
        return segment.start + (lane - segment.start) % self.lanes + own * self.lanes


def _segment(start: int, schedule: Schedule, lanes: int, base: Ints) -> _Segment:
    strided = schedule.strided(lanes) if lanes > 1 else schedule
    step_back = pow(lanes, -1, schedule.period) if schedule.period > 1 else 0
    offset = (np.arange(lanes) - start) % lanes  # of each lane's first slot in the segment
    phase = offset * step_back % schedule.period
    skipped = np.stack([_counted(strided, int(p)) for p in phase])
    return _Segment(start, schedule, strided, phase, skipped, base)


def _counted(schedule: Schedule, slots: int) -> Ints:
    """Return the draws from each source in the first slots of a schedule."""
    turns, rest = divmod(slots, schedule.period)
    return turns * schedule.counts + np.bincount(schedule.source[:rest], minlength=len(schedule.counts))


def _drawn_in(segment: _Segment, lanes: int, slots: int, lane: int | None) -> Ints:
    """Return the draws from each source in the first slots of a segment, by one lane or, with None, all lanes."""
    if lane is None:
        return _counted(segment.schedule, slots)
    own = (slots - (lane - segment.start) % lanes + lanes - 1) // lanes
    skipped: Ints = segment.skipped[lane]
    return _counted(segment.strided, int(segment.phase[lane]) + max(0, own)) - skipped
