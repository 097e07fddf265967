"""The cut of batches by length: windows of slots, sorted by length. Knows no files; lengths are passed in."""

from collections.abc import Mapping, Sequence
from math import lcm
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from penstock.plan.cutting import Rule, count_steps, deal, rank
from penstock.plan.draws import Ints, key
from penstock.plan.excluding import Excluded
from penstock.plan.openwindow import OpenWindow, columns_of
from penstock.plan.order import Order, Planned
from penstock.plan.windowtimeline import SlotWindow, WindowSegment, WindowTimeline

_KEPT_WINDOWS = 3
_SAMPLED_WINDOWS = (0, 1, 3, 7, 15, 31, 63, 127)  # from which the number of steps per window is taken
_SAMPLED_SLOTS = 1 << 19  # in these windows, or two windows: planned in a quarter of a second
_GROUP_BITS = 40
_SPARE_STEPS = 0.03  # share of additional steps per window, for windows of longer samples


class Lengths(Protocol):
    """Lengths of items, as they are padded."""

    def __call__(self, planned: Planned) -> tuple[Ints, Ints]:
        """Return the length of each item, and the number of the budget that it counts for."""
        ...


class _Items(NamedTuple):
    """The items of consecutive slots.

    Attributes:
        start: First slot.
        stop: Slot after the last.
        planned: Items.
        lengths: Length of each item.
        kinds: Number of the budget of each item.
    """

    start: int
    stop: int
    planned: Planned
    lengths: Ints
    kinds: Ints


class ByLength:
    """Plans windows, and keeps the latest ones.

    Args:
        order: Order of the run.
        lengths: Lengths of items.
        lanes: Number of lanes.
        seed: Seed of the run.
        alone: Whether a sample that is longer than the budget has a unit for itself. Otherwise it is left out.
        excluded: Excluded items by number of the source; ``since`` counts slots of the run. The order has
            them: their lengths still count.
    """

    def __init__(
        self,
        order: Order,
        lengths: Lengths,
        *,
        lanes: int,
        seed: int,
        alone: bool,
        excluded: Mapping[int, Excluded] | None = None,
    ) -> None:
        self.order = order
        self.lanes = lanes
        self._lengths = lengths
        self._seed = seed
        self._alone = alone
        self.excluded = excluded or {}
        # The latest; replaced whole, so threads need no lock.
        self._items: tuple[_Items, ...] = ()
        self._opened: tuple[tuple[object, OpenWindow], ...] = ()
        self._latest: tuple[WindowTimeline, range, OpenWindow] | None = None

    def at(self, timeline: WindowTimeline, step: int) -> OpenWindow:
        """Return the window of a step, with its items."""
        latest = self._latest
        if latest is not None and latest[0] is timeline and step in latest[1]:
            return latest[2]
        window = timeline.window(step)
        opened = self.open(timeline, window)
        self._latest = (timeline, range(window.first, timeline.used_until(window)), opened)
        return opened

    def open(self, timeline: WindowTimeline, window: SlotWindow) -> OpenWindow:
        """Return a window with its items, dealt to its steps."""
        known_as = (timeline.segments[: window.segment + 1], window) if window.rest else _key(timeline, window)
        for known, opened in self._opened:
            if known == known_as:
                return opened
        segment = timeline.segments[window.segment]
        items = self.items(window.start, window.stop)
        slots = items.planned.slot
        if window.rest:
            slots = self._unused(timeline, window)
        lengths = self._scaled(items, segment.budget)
        rule = self.rule(segment)
        ranked = rank(slots, lengths[slots - window.start], rule)
        dealt = deal(ranked, rule, window.steps, key(window.start, len(slots)))
        opened = OpenWindow(window, dealt, items.planned, lengths, items.kinds, rule)
        if self.excluded:
            planned = items.planned
            barred = self.is_excluded(planned, np.full_like(planned.slot, window.stop - 1))
            opened = opened.without(self.is_excluded(planned, planned.slot), barred, refill=self.order.length is None)
        self._opened = ((known_as, opened), *self._opened[: _KEPT_WINDOWS - 1])
        return opened

    def is_excluded(self, planned: Planned, slots: Ints) -> npt.NDArray[np.bool_]:
        """Return whether each item is excluded in a slot."""
        found = np.zeros(len(planned.slot), dtype=np.bool_)
        for source, excluded in self.excluded.items():
            own = np.flatnonzero(planned.source == source)
            found[own] = excluded.since_of(planned.group[own], planned.item[own]) <= slots[own]
        return found

    def _unused(self, timeline: WindowTimeline, window: SlotWindow) -> Ints:
        """Return the slots of a window that no step before a change used."""
        before = self.open(timeline, timeline.parent(window))
        used = before.used_before(window.first)
        return np.sort(np.concatenate([before.dealt.slots[used:], before.dealt.left_out]))

    def rule(self, segment: WindowSegment) -> Rule:
        """Return how the windows of a segment are cut. The budget of several kinds of lengths is a common multiple."""
        return Rule(segment.units, lcm(*segment.budget), self.lanes, self._alone, self._seed)

    def items(self, start: int, stop: int) -> _Items:
        """Return the items of consecutive slots."""
        for known in self._items:
            if (known.start, known.stop) == (start, stop):
                return known
        planned = self.order.look_up(np.arange(start, stop))
        found = _Items(start, stop, planned, *self._lengths(planned))
        self._items = (found, *self._items[: _KEPT_WINDOWS - 1])
        return found

    def _scaled(self, items: _Items, budget: tuple[int, ...]) -> Ints:
        if len(budget) == 1:
            return items.lengths
        factors = lcm(*budget) // np.array(budget, dtype=np.int64)
        return items.lengths * factors[items.kinds]

    def steps_per_window(self, segment: WindowSegment, start: int, stop: int | None = None) -> int:
        """Return a number of steps that is enough for nearly all windows: from some windows, and a few more.

        Args:
            segment: Segment whose ``steps`` are to be set.
            start: First slot of its windows.
            stop: Slot after the last of its windows; None if they do not end.
        """
        rule = self.rule(segment)
        needed = 1.0
        for number in _SAMPLED_WINDOWS[: max(2, _SAMPLED_SLOTS // segment.window)]:
            first = start + number * segment.window
            after = first + segment.window if stop is None else min(first + segment.window, stop)
            if after - first < segment.window and number:
                break
            items = self.items(first, after)
            ranked = rank(items.planned.slot, self._scaled(items, segment.budget), rule)
            steps = count_steps(ranked.longest, rule)
            needed = max(needed, steps * segment.window / (after - first))
        return max(1, min(int(needed * (1 + _SPARE_STEPS)) + 1, segment.window // segment.units))

    def shares_of_budget(self, samples: int, budget: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Return the share of its budget that each of the first samples of the run takes."""
        items = self.items(0, samples)
        shares: npt.NDArray[np.float64] = items.lengths / np.array(budget)[items.kinds]
        return shares


def _key(timeline: WindowTimeline, window: SlotWindow) -> object:
    """Return what a whole window depends on."""
    segment = timeline.segments[window.segment]
    return segment.units, segment.budget, window._replace(segment=0)


class WindowCut:
    """Batches by length; see ``Cut``.

    Args:
        windows: Plans the windows.
        timeline: Windows of the run.
        uneven: Whether ranks may get numbers of units that differ.
    """

    def __init__(self, windows: ByLength, timeline: WindowTimeline, uneven: bool = False) -> None:
        self._windows = windows
        self._timeline = timeline
        self._uneven = uneven

    def slots(self, steps: Sequence[int]) -> list[Ints]:
        return [self.opened(step).slots(step) for step in steps]

    def items(self, steps: Sequence[int], slots: Sequence[Ints]) -> Planned:
        several = [self.opened(step).items(own) for step, own in zip(steps, slots, strict=True)]
        return Planned(*(np.concatenate(columns) for columns in zip(*map(columns_of, several), strict=True)))

    def step(self, slot: int) -> int | None:
        found = self._holding(slot)
        return None if found is None else found[0]

    def end_slot(self, step: int) -> int:
        return self._timeline.end_slot(step)

    def share(self, step: int, rank: int, world: int) -> tuple[int, int]:
        ends = self._units(step, rank, world)
        return int(ends[0]), int(ends[-1])

    def unit_rows(self, step: int, rank: int, world: int) -> list[int]:
        return np.diff(self._units(step, rank, world)).tolist()  # type: ignore[no-any-return]

    def _units(self, step: int, rank: int, world: int) -> Ints:
        """Return the first column of each unit of a rank, and the column after the last."""
        opened = self.opened(step)
        units = opened.rule.units
        if world < 1 or not 0 <= rank < world:
            raise ValueError(f"rank {rank} of a world of {world}: ranks count from 0 to world - 1")
        if world > units or (units % world and not self._uneven):
            raise ValueError(
                f"a step has {units} units, which do not divide over {world} ranks; choose a number of ranks that "
                "divides it, or set batch.units to a multiple of the ranks"
            )
        starts = opened.units(step)
        number = len(starts) - 1
        return starts[rank * number // world : (rank + 1) * number // world + 1]

    def stand_in(self, slot: int, attempt: int) -> Planned | None:
        """Return the next shorter sample of the lane and the source, or another one of the step: both fit the unit."""
        found = self._holding(slot)
        if found is None or self._windows.order.length is not None:
            return None
        step, opened = found
        others = opened.substitutes(slot, step)
        number = attempt - 1 if opened.taken is None or opened.taken[slot - opened.window.start] == slot else attempt
        if number >= len(others):
            return None
        instead = opened.items(others[number : number + 1])
        return Planned(np.array([slot]), *columns_of(instead)[1:])

    def held_in(self, slot: int) -> list[int]:
        """Return the slots that have the item which the order has in a slot: also those of excluded items."""
        found: dict[int, None] = {}
        for window in self._timeline.windows_at(slot) if self._windows.excluded else ():
            opened = self._windows.open(self._timeline, window)
            for each in opened.slots_with(slot):
                step = opened.step(each)
                if step is not None and step < self._timeline.used_until(window):
                    found[each] = None
        return list(found) if self._windows.excluded else [slot]

    def residents(self, step: int, slots: Ints) -> list[tuple[int, int]]:
        """Return (source, group) of every group that a step and later ones need at once, soonest first.

        These are the groups of the window, of the pool at its beginning, and of the next window as far as this one is
        used: a group is kept until its last use, and fetched as the windows move on.
        """
        opened = self.opened(step)
        window = opened.window
        lanes = np.unique(slots % self._windows.lanes)
        soon = opened.dealt.slots[opened.dealt.bounds(step - window.first)[0] :]
        groups = _groups(opened.items(soon[np.isin(soon % self._windows.lanes, lanes)]))
        first = np.arange(window.start, min(window.start + self._windows.lanes, window.stop))
        pool = self._windows.order.residents(first[np.isin(first % self._windows.lanes, lanes)])
        excluded = self._windows.excluded
        pool = [
            each for each in pool if each[0] not in excluded or not excluded[each[0]].is_whole(each[1], window.stop)
        ]
        used = (step + 1 - window.first) * (window.stop - window.start) // window.steps
        length = self._windows.order.length
        following = self._timeline.window(window.first + window.steps)
        if length is None or following.stop <= length:
            items = self._windows.items(following.start, following.stop)
            later = np.arange(min(used, following.stop - following.start))
            own = later[np.isin((following.start + later) % self._windows.lanes, lanes)]
            planned = Planned(*(column[own] for column in columns_of(items.planned)))
            if excluded:
                kept = ~self._windows.is_excluded(planned, planned.slot)
                planned = Planned(*(column[kept] for column in columns_of(planned)))
            groups |= _groups(planned)
        return list(groups | dict.fromkeys(pool))

    def opened(self, step: int) -> OpenWindow:
        """Return the window of a step, with its items."""
        return self._windows.at(self._timeline, step)

    def _holding(self, slot: int) -> tuple[int, OpenWindow] | None:
        """Return the step that has a slot, and its window; None if the slot is left out."""
        for window in self._timeline.windows_at(slot):
            opened = self._windows.open(self._timeline, window)
            step = opened.step(slot)
            if step is not None and step < self._timeline.used_until(window):
                return step, opened
        return None


def _groups(planned: Planned) -> dict[tuple[int, int], None]:
    """Return (source, group) of some items, in the order of their first use."""
    codes = (planned.source << _GROUP_BITS) + planned.group
    found, first = np.unique(codes, return_index=True)
    ordered = found[np.argsort(first)].tolist()
    return dict.fromkeys((code >> _GROUP_BITS, code & ((1 << _GROUP_BITS) - 1)) for code in ordered if code >= 0)
