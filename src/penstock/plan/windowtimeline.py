"""Steps and windows of batches by length: which window of slots each step belongs to. Integers only; knows no lengths.

slots    0 ........ M ........ 2M ........ 3M        a window of M slots has S steps, whatever its items are,
steps    0 ........ S ........ 2S ........ 3S        so the window of a step is found without the ones before
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from penstock.plan.timeline import Timeline


class WindowSegment(NamedTuple):
    """Steps that are cut alike.

    Attributes:
        step: First step.
        slot: Number of slots that earlier steps used.
        units: Units per step.
        budget: Maximum padded length of a unit; with several kinds of lengths, one number per kind.
        window: Slots per window.
        steps: Steps per window.
    """

    step: int
    slot: int
    units: int
    budget: tuple[int, ...]
    window: int
    steps: int

    def steps_of(self, slots: int) -> int:
        """Return the number of steps of a window; a short one has steps in proportion, and one more."""
        if slots == self.window:
            return self.steps
        return min(-(-self.steps * slots // self.window) + 1, -(-slots // self.units))

    def listed(self) -> list[int | list[int]]:
        """Return the segment as JSON represents it."""
        budget = self.budget[0] if len(self.budget) == 1 else list(self.budget)
        return [self.step, self.slot, self.units, budget, self.window, self.steps]


class SlotWindow(NamedTuple):
    """A window of slots, and its steps.

    Attributes:
        start: First slot.
        stop: Slot after the last.
        first: First step.
        steps: Number of steps.
        segment: Number of the segment.
        rest: Whether it holds only the slots that steps of the segment before did not use.
    """

    start: int
    stop: int
    first: int
    steps: int
    segment: int
    rest: bool = False


@dataclass(frozen=True, slots=True)
class WindowTimeline:
    """The division of the slots of a run into windows and steps.

    Attributes:
        segments: Segments in order. A segment that begins within a window cuts the unused slots of this window anew.
        epoch: Slots per epoch, if no window may hold slots of two epochs. The last window of an epoch may be short.
    """

    segments: tuple[WindowSegment, ...]
    epoch: int | None = None

    def __post_init__(self) -> None:
        if not self.segments or self.segments[0][:2] != (0, 0):
            raise ValueError(f"segments begin with [0, 0, …], not {[each.listed() for each in self.segments[:1]]}")
        if self.epoch is not None and self.epoch < 1:
            raise ValueError(f"an epoch of {self.epoch} samples; it must have at least 1")
        for each in self.segments:
            if min(each.units, each.window, each.steps, len(each.budget), *each.budget) < 1:
                raise ValueError(f"segment {each.listed()}: units, budget, window and steps must be at least 1")
        for number, (before, after) in enumerate(pairwise(self.segments)):
            window = self._window(after.step, number) if after.step > before.step else None
            if window is None or not window.start <= after.slot <= window.stop:
                raise ValueError(f"segment {after.listed()} does not continue {before.listed()}")
            if window.first == after.step and window.start != after.slot:
                raise ValueError(f"segment {after.listed()} does not continue {before.listed()}")

    def window(self, step: int) -> SlotWindow:
        """Return the window of a step.

        Raises:
            IndexError: If the step is negative.
        """
        if step < 0:
            raise IndexError(f"step {step}: steps count from 0")
        return self._window(step, bisect_right(self.segments, step, key=lambda each: each.step) - 1)

    def first_step(self, slot: int) -> int:
        """Return the first step that depends on a slot."""
        return next(iter(self.windows_at(slot))).first

    def end_slot(self, step: int) -> int:
        """Return the slot after the window of a step; 0 for step -1."""
        return self.window(step).stop if step >= 0 else 0

    def signature(self, step: int) -> object:
        """Return what determines the slots of a step, to compare timelines."""
        window = self.window(step)
        segment = self.segments[window.segment]
        before = self.segments[: window.segment] if window.rest else ()
        return window._replace(segment=0), segment.units, segment.budget, before

    def span(self, first: int, after: int) -> tuple[int, int]:
        """Return the slots that some steps draw from: the first one, and the one after the last."""
        return self.window(first).start, self.window(max(first, after - 1)).stop

    def windows_at(self, slot: int) -> Iterable[SlotWindow]:
        """Yield the windows that may use a slot, in order: a window, and what is left of it after each change."""
        number = max(at for at in range(len(self.segments)) if self._grid(at)[0] <= slot)
        window = self._at(slot, number)
        yield window
        for following in range(number + 1, len(self.segments)):
            if not window.first < self.segments[following].step < window.first + window.steps:
                return
            window = self._window(self.segments[following].step, following)
            yield window

    def used_until(self, window: SlotWindow) -> int:
        """Return the step before which a window's steps are used: a change may end it early."""
        end = window.first + window.steps
        following = self.segments[window.segment + 1 : window.segment + 2]
        return min([end, *(each.step for each in following)])

    def parent(self, window: SlotWindow) -> SlotWindow:
        """Return the window whose unused slots a rest window holds."""
        return self._window(self.segments[window.segment].step, window.segment - 1)

    def count_steps(self, length: int) -> int:
        """Return the number of steps that use the first slots of the run.

        Args:
            length: Number of slots; a multiple of the epoch, if there is one.
        """
        number = max(at for at in range(len(self.segments)) if self._grid(at)[0] <= length)
        base, rest = self._grid(number)
        if base == length:
            return self.segments[number].step + (self.segments[number].steps_of(rest) if rest else 0)
        window = self._at(length - 1, number)
        return window.first + window.steps

    def last_grid(self) -> int:
        """Return the first slot of the whole windows of the last segment."""
        return self._grid(len(self.segments) - 1)[0]

    def last_window(self, slot: int) -> SlotWindow:
        """Return the window of the last segment that holds a slot from ``last_grid`` on."""
        return self._at(slot, len(self.segments) - 1)

    def until(self, step: int) -> "WindowTimeline":
        """Return the timeline without changes after a step."""
        return WindowTimeline(tuple(each for each in self.segments if each.step <= step), self.epoch)

    def _window(self, step: int, number: int) -> SlotWindow:
        """Return the window of a step, by the first ``number + 1`` segments."""
        segment = self.segments[number]
        base, rest = self._grid(number)
        count = step - segment.step
        if rest:
            steps = segment.steps_of(rest)
            if count < steps:
                return SlotWindow(self.parent_start(number), base, segment.step, steps, number, rest=True)
            count -= steps
        if self.epoch is not None:
            end = base - base % self.epoch + self.epoch
            steps = _count(end - base, segment)
            if count < steps:
                return _of_stretch(base, end, count, step, number, segment)
            epochs, count = divmod(count - steps, _count(self.epoch, segment))
            base = end + epochs * self.epoch
            return _of_stretch(base, base + self.epoch, count, step, number, segment)
        windows, within = divmod(count, segment.steps)
        start = base + windows * segment.window
        return SlotWindow(start, start + segment.window, step - within, segment.steps, number)

    def parent_start(self, number: int) -> int:
        """Return the first slot of the window in which a segment begins."""
        return self._window(self.segments[number].step, number - 1).start

    def _grid(self, number: int) -> tuple[int, int]:
        """Return the first slot of the whole windows of a segment, and the number of slots in its rest window."""
        if number == 0:
            return 0, 0
        segment = self.segments[number]
        before = self._window(segment.step, number - 1)
        if before.first == segment.step:
            return before.start, 0
        return before.stop, before.stop - segment.slot

    def _at(self, slot: int, number: int) -> SlotWindow:
        """Return the whole or short window of a segment that holds a slot."""
        segment = self.segments[number]
        base, rest = self._grid(number)
        step = segment.step + (segment.steps_of(rest) if rest else 0)
        if self.epoch is not None:
            end = base - base % self.epoch + self.epoch
            if slot >= end:
                epochs = (slot - end) // self.epoch
                step += _count(end - base, segment) + epochs * _count(self.epoch, segment)
                base = end + epochs * self.epoch
        step += (slot - base) // segment.window * segment.steps
        return self._window(step, number)


def _count(slots: int, segment: WindowSegment) -> int:
    """Return the number of steps of consecutive slots: of whole windows, and of a short one."""
    whole, left = divmod(slots, segment.window)
    return whole * segment.steps + (segment.steps_of(left) if left else 0)


def _of_stretch(base: int, end: int, count: int, step: int, number: int, segment: WindowSegment) -> SlotWindow:
    """Return the window of the ``count``-th step of the slots from ``base`` to ``end``."""
    windows = min(count // segment.steps, (end - base) // segment.window)
    start = base + windows * segment.window
    stop = min(start + segment.window, end)
    return SlotWindow(start, stop, step - (count - windows * segment.steps), segment.steps_of(stop - start), number)


AnyTimeline = Timeline | WindowTimeline
"""Batches of fixed sizes, or batches by length."""
