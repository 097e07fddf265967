"""Batches by length: every slot once, never above the budget, the same for any world and after any change."""

import json
from dataclasses import dataclass
from itertools import pairwise
from math import lcm

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.bylength import ByLength, WindowCut
from penstock.plan.draws import Ints, words
from penstock.plan.finite import Finite
from penstock.plan.order import Planned, Source
from penstock.plan.plan import Plan
from penstock.plan.windowtimeline import WindowSegment, WindowTimeline
from tests.plan.runs import Run, rows, runs

LONGEST = 40


def lengths(planned: Planned) -> tuple[Ints, Ints]:
    """A length from 1 to 40 of each item, by a hash; of two kinds."""
    code = planned.source * 1_000_003 + planned.group * 1_009 + planned.item
    return (words(5, code) % np.uint64(LONGEST)).astype(np.int64) + 1, planned.source % 2


def one_kind(planned: Planned) -> tuple[Ints, Ints]:
    return lengths(planned)[0], np.zeros(len(planned.item), dtype=np.int64)


@dataclass(frozen=True)
class Cutting:
    """A run, and the windows it is cut into."""

    run: Run
    timeline: WindowTimeline
    alone: bool

    def plan(self) -> Plan:
        """Made anew, so that nothing is remembered."""
        order = self.run.order()
        measure = lengths if len(self.timeline.segments[0].budget) > 1 else one_kind
        windows = ByLength(order, measure, lanes=self.run.lanes, seed=self.run.seed, alone=self.alone)
        return Plan(order, epoch=self.timeline.epoch, windows=windows)


@st.composite
def segments(draw: st.DrawFn, lanes: int, kinds: int) -> WindowSegment:
    units = lanes * draw(st.integers(1, 3))
    window = units * draw(st.integers(1, 24))
    budget = tuple(draw(st.integers(LONGEST // 2, 5 * LONGEST)) for _ in range(kinds))
    return WindowSegment(0, 0, units, budget, window, draw(st.integers(1, window // units)))


@st.composite
def cuttings(draw: st.DrawFn, changes: int = 2) -> Cutting:
    run = draw(runs())
    kinds = draw(st.integers(1, 2))
    epoch = draw(st.one_of(st.none(), st.integers(1, 150)))
    cutting = Cutting(run, WindowTimeline((draw(segments(run.lanes, kinds)),), epoch), draw(st.booleans()))
    for _ in range(draw(st.integers(0, changes))):
        gap = draw(st.integers(1, 30))
        cutting = changed(cutting, cutting.timeline.segments[-1].step + gap, draw(segments(run.lanes, kinds)))
    return cutting


def changed(cutting: Cutting, step: int, segment: WindowSegment) -> Cutting:
    """The same run with another cut from a step on, as after a resume with another batch."""
    cut = cutting.plan().cut(cutting.timeline)
    assert isinstance(cut, WindowCut)
    window = cutting.timeline.window(step)
    used = cut.opened(step).used_before(step)
    slot = (cutting.timeline.segments[window.segment].slot if window.rest else window.start) + used
    added = segment._replace(step=step, slot=slot)
    return Cutting(
        cutting.run, WindowTimeline((*cutting.timeline.segments, added), cutting.timeline.epoch), cutting.alone
    )


def steps_to_check(timeline: WindowTimeline) -> int:
    """The end of a window, some windows after the last change."""
    window = timeline.window(timeline.segments[-1].step + 60)
    return window.first + window.steps


@settings(deadline=None)
@given(cuttings(changes=0))
def test_a_unit_is_without_a_sample_only_where_no_other_of_its_window_has_two(cutting: Cutting) -> None:
    cut = cutting.plan().cut(cutting.timeline)
    assert isinstance(cut, WindowCut)
    for step in range(30):
        opened = cut.opened(step)
        lanes = {len(each) for each in opened.dealt.ranked}
        rows = np.diff(opened.dealt.unit_starts)
        if len(lanes) == 1 and not rows.all():
            assert rows.max() <= 1


@settings(deadline=None, max_examples=20)
@given(cuttings())
def test_every_slot_is_in_one_step_or_longer_than_the_budget(cutting: Cutting) -> None:
    plan = cutting.plan()
    cut = plan.cut(cutting.timeline)
    end = steps_to_check(cutting.timeline)
    slots = np.concatenate(cut.slots(range(end)))
    assert len(np.unique(slots)) == len(slots)
    missing = np.setdiff1d(np.arange(cut.end_slot(end - 1)), slots)
    if cutting.alone:
        assert not len(missing)
    for slot in missing.tolist():  # by the budget of the last change in its window
        [last] = [list(cutting.timeline.windows_at(slot))[-1]]
        budget = cutting.timeline.segments[last.segment].budget
        length, kind = lengths(plan.order.look_up(np.array([slot])))
        assert length[0] > budget[kind[0] if len(budget) > 1 else 0]


@settings(deadline=None, max_examples=20)
@given(cuttings())
def test_no_unit_exceeds_the_budget(cutting: Cutting) -> None:
    plan = cutting.plan()
    cut = plan.cut(cutting.timeline)
    assert isinstance(cut, WindowCut)
    for step in range(0, steps_to_check(cutting.timeline), 3):
        opened = cut.opened(step)
        segment = cutting.timeline.segments[opened.window.segment]
        padded = opened.lengths[opened.slots(step) - opened.window.start]
        for first, after in pairwise(opened.units(step).tolist()):
            longest = int(padded[first:after].max(initial=0))
            fits = (after - first) * longest <= lcm(*segment.budget)
            assert fits or (cutting.alone and after - first == 1)


@settings(deadline=None, max_examples=15)
@given(cuttings(), st.integers(0, 90))
def test_the_global_batch_is_the_same_for_every_world_and_from_cold(cutting: Cutting, step: int) -> None:
    walked = cutting.plan()
    whole = [rows(walked.batch(each, 0, 1, cutting.timeline)) for each in range(step + 1)][-1]
    units = cutting.timeline.segments[cutting.timeline.window(step).segment].units
    for world in (1, 2, 3, 8, units):
        cold = cutting.plan()
        if units % world:
            with pytest.raises(ValueError, match="units, which do not divide over"):
                cold.batch(step, 0, world, cutting.timeline)
        else:
            parts = [rows(cold.batch(step, rank, world, cutting.timeline)) for rank in range(world)]
            assert [row for part in parts for row in part] == whole
            taken = [len(cold.cut(cutting.timeline).unit_rows(step, rank, world)) for rank in range(world)]
            assert len(set(taken)) == 1, "every rank gets as many batches"


@settings(deadline=None, max_examples=6)
@given(cuttings(changes=1), st.data())
def test_a_change_at_any_step_of_a_window_keeps_what_came_before_and_loses_no_slot(
    cutting: Cutting, data: st.DataObject
) -> None:
    plan = cutting.plan()
    last = cutting.timeline.segments[-1]
    window = cutting.timeline.window(last.step + data.draw(st.integers(1, 40)))
    new = data.draw(segments(cutting.run.lanes, len(last.budget)))
    for step in range(max(window.first, last.step + 1), window.first + window.steps + 1):
        other = changed(cutting, step, new)
        before = [rows(plan.batch(each, 0, 1, cutting.timeline)) for each in range(window.first, step)]
        assert before == [rows(other.plan().batch(each, 0, 1, other.timeline)) for each in range(window.first, step)]
        cut = other.plan().cut(other.timeline)
        end = other.timeline.window(step)
        slots = np.concatenate(cut.slots(range(end.first + end.steps)))
        assert len(np.unique(slots)) == len(slots)
        if cutting.alone:
            assert sorted(slots.tolist()) == list(range(end.stop))


@settings(deadline=None, max_examples=15)
@given(cuttings(), st.integers(0, 80), st.integers(1, 3))
def test_uses_undo_the_plan_over_changes_of_mixture_and_batch(cutting: Cutting, step: int, world: int) -> None:
    plan = cutting.plan()
    units = cutting.timeline.segments[cutting.timeline.window(step).segment].units
    world = world if units % world == 0 else 1
    every_world = all(segment.units % world == 0 for segment in cutting.timeline.segments)
    for rank in range(world if every_world else 0):
        for place, row in enumerate(rows(plan.batch(step, rank, world, cutting.timeline))[:3]):
            _, source, epoch, _, group, item = row
            uses = plan.uses(source, group, item, range(epoch, epoch + 1), world=world, timeline=cutting.timeline)
            assert (step, rank, place) in [(use.step, use.rank, use.slot) for use in uses]


@settings(deadline=None, max_examples=15)
@given(cuttings(), st.integers(0, 80))
def test_a_substitute_fits_the_unit_of_the_sample_that_it_replaces(cutting: Cutting, step: int) -> None:
    plan = cutting.plan()
    cut = plan.cut(cutting.timeline)
    assert isinstance(cut, WindowCut)
    opened = cut.opened(step)
    slots = opened.slots(step)
    columns = opened.units(step)
    for column, slot in list(enumerate(slots.tolist()))[:: max(1, len(slots) // 4)]:
        unit = int(np.searchsorted(columns, column, side="right")) - 1
        longest = opened.lengths[slots[columns[unit] : columns[unit + 1]] - opened.window.start].max()
        tried = [cut.stand_in(slot, attempt) for attempt in range(1, 9)]
        for instead in tried:
            if instead is None:
                continue
            assert instead.slot.tolist() == [slot]
            length, kind = lengths(instead)
            budget = cutting.timeline.segments[opened.window.segment].budget
            scale = lcm(*budget) // budget[kind[0] if len(budget) > 1 else 0]
            assert length[0] * scale <= longest


@settings(deadline=None, max_examples=20)
@given(cuttings())
def test_steps_and_windows_follow_each_other(cutting: Cutting) -> None:
    timeline = cutting.timeline
    windows = list(dict.fromkeys(timeline.window(step) for step in range(steps_to_check(timeline))))
    for one, other in pairwise(windows):
        assert other.first == min(one.first + one.steps, timeline.used_until(one))
        assert other.start == one.stop or (other.rest and other.stop == one.stop)
        if timeline.epoch is not None:
            assert one.start // timeline.epoch == (one.stop - 1) // timeline.epoch
    listed = json.loads(json.dumps([segment.listed() for segment in timeline.segments]))
    assert [each[0] for each in listed] == [segment.step for segment in timeline.segments]


@settings(deadline=None, max_examples=15)
@given(
    st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=6), min_size=1, max_size=3),
    st.integers(1, 3),
    segments(1, 1),
)
def test_a_finite_run_has_every_item_once_per_pass(sizes: list[list[int]], passes: int, segment: WindowSegment) -> None:
    sources = [Source(f"s{number}", np.array(of_groups)) for number, of_groups in enumerate(sizes)]
    order = Finite(sources, passes=passes, residents=3, seed=5)
    windows = ByLength(order, one_kind, lanes=1, seed=5, alone=True)
    plan = Plan(order, epoch=order.length // passes, windows=windows)
    timeline = WindowTimeline((segment,), plan.epoch)
    steps = plan.steps(timeline)
    assert steps is not None
    found = [row for step in range(steps) for row in rows(plan.batch(step, 0, 1, timeline))]
    per_pass = [sorted(row[3:] + row[1:2] for row in found if row[2] == number) for number in range(passes)]
    assert all(each == per_pass[0] for each in per_pass) and len(set(per_pass[0])) == order.length // passes
    with pytest.raises(IndexError, match="the run has"):
        plan.batch(steps, 0, 1, timeline)


def test_steps_are_of_like_lengths_and_leave_little_padding() -> None:
    run = Run((Source("a", np.full(40, 500)),), ((0, (1,)),), 1, 20, 3)
    order = run.order()
    windows = ByLength(order, one_kind, lanes=1, seed=3, alone=False)
    segment = WindowSegment(0, 0, 4, (8 * LONGEST,), 8_192, 1)
    timeline = WindowTimeline((segment._replace(steps=windows.steps_per_window(segment, 0)),))
    cut = WindowCut(windows, timeline)
    useful = padded = 0
    for step in range(timeline.segments[0].steps):
        opened = cut.opened(step)
        own = opened.lengths[opened.slots(step)]
        for first, after in pairwise(opened.units(step).tolist()):
            useful += int(own[first:after].sum())
            padded += (after - first) * int(own[first:after].max(initial=0))
    assert useful / padded > 0.99


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ((), "begin with"),
        ((WindowSegment(0, 5, 1, (9,), 4, 2),), "begin with"),
        ((WindowSegment(0, 0, 1, (9,), 0, 2),), "at least 1"),
        ((WindowSegment(0, 0, 1, (9,), 4, 2), WindowSegment(2, 9, 1, (9,), 4, 2)), "does not continue"),
        ((WindowSegment(0, 0, 1, (9,), 4, 2), WindowSegment(2, 5, 1, (9,), 4, 2)), "does not continue"),
        ((WindowSegment(0, 0, 1, (9,), 4, 2), WindowSegment(0, 0, 1, (9,), 4, 2)), "does not continue"),
    ],
)
def test_segments_that_no_run_has_are_refused(segments: tuple[WindowSegment, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WindowTimeline(segments)


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_group_stays_until_its_last_use_in_an_epoch_and_few_are_kept(lanes: int) -> None:
    sources = (Source("a", np.full(30, 120)), Source("b", np.full(24, 150)))
    run = Run(sources, ((0, (2, 3)),), lanes, 4, 3)
    timeline = WindowTimeline((WindowSegment(0, 0, lanes, (6 * LONGEST,), 96 * lanes, 10),))
    cut = Cutting(run, timeline, alone=False).plan().cut(timeline)
    kept: set[tuple[int, int]] = set()
    left: set[tuple[int, int, int]] = set()
    for step in range(250):
        [slots] = cut.slots([step])
        own = slots[slots % lanes == 0]
        planned = cut.items([step], [own])
        used = set(zip(planned.source.tolist(), planned.group.tolist(), planned.epoch.tolist(), strict=True))
        now = set(cut.residents(step, own))
        assert {each[:2] for each in used} <= now
        assert not used & left, "it would be fetched twice"
        epochs = {source: epoch for source, _, epoch in used}
        left |= {(*each, epochs[each[0]]) for each in kept - now if each[0] in epochs}
        kept = now
        assert len(now) <= 2 * (4 + 3) + 4
    assert left
