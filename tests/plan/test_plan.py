"""The plan: the same global batch for every world, exactly once an epoch over all ranks, and its inverse."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.cut import rank_bounds
from penstock.plan.finite import Finite
from penstock.plan.order import Source
from penstock.plan.plan import Plan, Use
from penstock.plan.timeline import Timeline
from tests.plan.runs import Run, rows, runs

Rows = list[tuple[int, ...]]


@st.composite
def timelines(draw: st.DrawFn, largest: int = 60) -> Timeline:
    timeline = Timeline.constant(draw(st.integers(1, largest)))
    for step, size in draw(st.lists(st.tuples(st.integers(0, 40), st.integers(1, largest)), max_size=3)):
        timeline = timeline.changed(step, size)
    return timeline


def finite_plan(sizes: list[list[int]], passes: int, *, drop_last: bool, uneven: bool = True) -> Plan:
    sources = [Source(f"s{i}", np.array(of_groups)) for i, of_groups in enumerate(sizes)]
    return Plan(Finite(sources, passes=passes, residents=3, seed=5), drop_last=drop_last, uneven=uneven)


def global_batch(plan: Plan, step: int, world: int, timeline: Timeline) -> Rows:
    return [row for rank in range(world) for row in rows(plan.batch(step, rank, world, timeline))]


several_sizes = st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=6), min_size=1, max_size=3)


@given(st.integers(0, 500), st.integers(1, 64))
def test_ranks_cut_a_batch_into_consecutive_parts_that_differ_by_one_at_most(size: int, world: int) -> None:
    bounds = [rank_bounds(size, rank, world, uneven=True) for rank in range(world)]
    assert [low for low, _ in bounds] + [size] == [0] + [high for _, high in bounds]
    assert {high - low for low, high in bounds} <= {size // world, -(-size // world)}
    if size % world == 0:
        assert bounds == [rank_bounds(size, rank, world) for rank in range(world)]


def test_a_world_that_does_not_divide_the_batch_is_refused_unless_asked_for() -> None:
    with pytest.raises(ValueError, match=r"global batch of 10 does not divide over 4 ranks.*uneven"):
        rank_bounds(10, 0, 4)
    assert rank_bounds(10, 1, 4, uneven=True) == (2, 5)


@settings(deadline=None, max_examples=60)
@given(runs(), st.lists(st.integers(0, 300), min_size=1, max_size=12), st.integers(1, 60), st.integers(1, 5))
def test_batches_that_are_planned_at_once_are_those_planned_alone(
    run: Run, steps: list[int], size: int, world: int
) -> None:
    plan, timeline = Plan(run.order(), uneven=True), Timeline.constant(size)
    for rank in range(world):
        alone = [row for step in steps for row in rows(plan.batch(step, rank, world, timeline))]
        assert rows(plan.batches(steps, rank, world, timeline)) == alone


@settings(deadline=None, max_examples=60)
@given(runs(), st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(1, 90), st.integers(1, 5))
def test_batches_of_several_sizes_are_those_planned_alone_too(
    run: Run, steps: list[int], epoch: int, world: int
) -> None:
    plan = Plan(run.order(), uneven=True)
    timeline = Timeline.constant(7, epoch).changed(12, 10)
    for rank in range(world):
        alone = [row for step in steps for row in rows(plan.batch(step, rank, world, timeline))]
        assert rows(plan.batches(steps, rank, world, timeline)) == alone


def test_the_short_last_batch_of_an_epoch_may_be_uneven_and_no_other() -> None:
    plan = finite_plan([[100]], 1, drop_last=False, uneven=False)
    timeline = Timeline.constant(8, epoch=13)
    assert [plan.rows(1, rank, 2, timeline) for rank in range(2)] == [2, 3]
    with pytest.raises(ValueError, match="does not divide"):
        plan.rows(0, 0, 3, timeline)


@pytest.mark.parametrize(("rank", "world"), [(-1, 4), (4, 4), (0, 0)])
def test_a_rank_outside_its_world_is_refused(rank: int, world: int) -> None:
    with pytest.raises(ValueError, match=f"rank {rank} of a world of {world}"):
        rank_bounds(8, rank, world, uneven=True)


@settings(deadline=None, max_examples=60)
@given(runs(), timelines(), st.integers(0, 10**9), st.lists(st.integers(1, 80), min_size=1, max_size=4))
def test_the_global_batch_is_the_same_items_in_the_same_order_for_every_world(
    run: Run, timeline: Timeline, step: int, worlds: list[int]
) -> None:
    whole = rows(Plan(run.order()).batch(step, 0, 1, timeline))
    assert len(whole) == timeline.batch(step)[1]
    for world in worlds:
        assert global_batch(Plan(run.order(), uneven=True), step, world, timeline) == whole


@settings(deadline=None, max_examples=15)
@given(runs(segments=2, all_drawn=True), st.integers(30, 400), st.integers(1, 5))
def test_every_item_comes_exactly_once_an_epoch_over_all_lanes_and_ranks(run: Run, size: int, world: int) -> None:
    plan, timeline = Plan(run.order(), uneven=True), Timeline.constant(size)
    steps = -(-run.slots_for_epochs(1) // size)
    found = np.array([row for step in range(steps) for row in global_batch(plan, step, world, timeline)])
    for source, spec in enumerate(run.sources):
        first = found[(found[:, 1] == source) & (found[:, 2] == 0)]
        assert len(np.unique(first[:, 3:], axis=0)) == len(first) == run.epoch_items(source) * spec.repeat


@settings(deadline=None, max_examples=25)
@given(runs(), timelines(), st.integers(1, 7), st.lists(st.integers(0, 60), min_size=1, max_size=10))
def test_a_step_from_cold_is_the_step_of_a_walk(run: Run, timeline: Timeline, world: int, asked: list[int]) -> None:
    walker = Plan(run.order(), uneven=True)
    walked = [global_batch(walker, step, world, timeline) for step in range(61)]
    for step in asked:
        assert global_batch(Plan(run.order(), uneven=True), step, world, timeline) == walked[step]


@settings(deadline=None, max_examples=30)
@given(runs(), timelines(), timelines())
def test_another_batch_size_moves_only_the_boundaries(run: Run, one: Timeline, other: Timeline) -> None:
    plan = Plan(run.order())
    samples = [
        sorted(row for step in range(60) for row in rows(plan.batch(step, 0, 1, timeline))) for timeline in (one, other)
    ]
    both = min(len(sample) for sample in samples)
    assert [row[0] for row in samples[0]] == list(range(len(samples[0])))
    assert samples[0][:both] == samples[1][:both]


@settings(deadline=None, max_examples=30)
@given(runs(segments=1), timelines())
def test_every_source_is_within_the_bound_of_its_quota_at_every_batch_end(run: Run, timeline: Timeline) -> None:
    [(_, counts)], plan = run.changes, Plan(run.order())
    positive = sum(count > 0 for count in counts)
    bound = 1 - Fraction(1, 2 * positive - 2) if positive > 1 else Fraction(0)
    drawn, slots = np.zeros(len(counts), dtype=int), 0
    for step in range(60):
        batch = plan.batch(step, 0, 1, timeline)
        drawn += np.bincount(batch.source, minlength=len(counts))
        slots += len(batch.slot)
        assert all(abs(int(n) - Fraction(slots * c, sum(counts))) <= bound for n, c in zip(drawn, counts, strict=True))


@settings(deadline=None, max_examples=30)
@given(runs(), st.integers(1, 30), st.integers(0, 10**6))
def test_with_a_rank_a_lane_each_rank_reads_its_own_lane(run: Run, share: int, step: int) -> None:
    timeline = Timeline.constant(share * run.lanes)
    for rank in range(run.lanes):
        batch = Plan(run.order()).batch(step, rank, run.lanes, timeline)
        assert set((batch.slot % run.lanes).tolist()) == {rank}


@settings(deadline=None, max_examples=60)
@given(runs(), timelines(), st.integers(1, 9), st.lists(st.integers(0, 10**6), min_size=1, max_size=5))
def test_uses_undo_batch(run: Run, timeline: Timeline, world: int, asked: list[int]) -> None:
    plan, inverse = Plan(run.order(), uneven=True), Plan(run.order(), uneven=True)
    for step in [asked[0] % 60, *asked]:
        for rank in range(world):
            for place, row in enumerate(rows(plan.batch(step, rank, world, timeline))[:2]):
                _, source, epoch, repeat, group, item = row
                uses = list(inverse.uses(source, group, item, range(epoch, epoch + 1), world=world, timeline=timeline))
                assert uses[repeat] == Use(epoch, step, rank, place)


@settings(deadline=None, max_examples=25)
@given(runs(), timelines(largest=200), st.integers(1, 5), st.data())
def test_uses_are_all_that_a_walk_finds_and_in_its_order(
    run: Run, timeline: Timeline, world: int, data: st.DataObject
) -> None:
    plan, seen = Plan(run.order(), uneven=True), {}
    for step in range(60):
        for rank in range(world):
            for place, row in enumerate(rows(plan.batch(step, rank, world, timeline))):
                _, source, epoch, _, group, item = row
                seen.setdefault((source, group, item), []).append((row[0], Use(epoch, step, rank, place)))
    for _ in range(8):
        source = data.draw(st.integers(0, len(run.sources) - 1))
        group = data.draw(st.integers(0, len(run.sources[source].sizes) - 1))
        item = data.draw(st.integers(0, int(run.sources[source].sizes[group]) - 1))
        first = data.draw(st.integers(0, 3))
        walked = [use for _, use in sorted(seen.get((source, group, item), []), key=lambda found: found[0])]
        found = plan.uses(source, group, item, range(first, first + 3), world=world, timeline=timeline)
        assert [use for use in found if use.step < 60] == [use for use in walked if first <= use.epoch < first + 3]


@settings(deadline=None)
@given(several_sizes, st.integers(1, 2), timelines(largest=30), st.integers(1, 4), st.booleans())
def test_a_finite_run_has_every_item_once_a_pass_and_padding_in_its_last_batch_alone(
    sizes: list[list[int]], passes: int, timeline: Timeline, world: int, drop_last: bool
) -> None:
    plan = finite_plan(sizes, passes, drop_last=drop_last)
    steps, length = plan.steps(timeline), passes * sum(map(sum, sizes))
    assert steps is not None
    found = [row for step in range(steps) for row in global_batch(plan, step, world, timeline)]
    real = [row for row in found if row[1] >= 0]
    assert [row[0] for row in real] == list(range(len(real)))
    padding = [row for row in found if row[1] < 0]
    assert padding == [(slot, *(-1,) * 5) for slot in range(length, length + len(padding))]
    assert len({row[1:] for row in real}) == len(real)
    start, size = timeline.batch(steps)
    if drop_last:
        assert len(found) == len(real) <= length < start + size
    else:
        assert len(real) == length <= len(found)
        assert steps == 0 or timeline.batch(steps - 1)[0] < length


@settings(deadline=None)
@given(several_sizes, st.integers(1, 2), timelines(largest=30), st.integers(1, 4), st.booleans())
def test_uses_undo_batch_in_a_finite_run(
    sizes: list[list[int]], passes: int, timeline: Timeline, world: int, drop_last: bool
) -> None:
    plan = finite_plan(sizes, passes, drop_last=drop_last)
    seen: dict[tuple[int, ...], list[Use]] = {}
    for step in range(plan.steps(timeline) or 0):
        for rank in range(world):
            for place, row in enumerate(rows(plan.batch(step, rank, world, timeline))):
                seen.setdefault((row[1], row[4], row[5]), []).append(Use(row[2], step, rank, place))
    for source, of_groups in enumerate(sizes):
        for group, size in enumerate(of_groups):
            for item in {0, size // 2, size - 1}:
                uses = list(plan.uses(source, group, item, range(passes + 1), world=world, timeline=timeline))
                assert uses == seen.get((source, group, item), [])


def test_a_finite_run_of_ten_in_batches_of_four() -> None:
    timeline = Timeline.constant(4)
    padded, dropped = (finite_plan([[4, 3], [3]], 1, drop_last=drop, uneven=False) for drop in (False, True))
    assert (padded.steps(timeline), dropped.steps(timeline)) == (3, 2)
    assert [row[0] for row in rows(padded.batch(2, 0, 1, timeline))] == [8, 10, 9, 11]
    assert [row[0] for row in rows(padded.batch(2, 1, 2, timeline))] == [9, 11]
    assert (padded.batch(2, 1, 2, timeline).item >= 0).tolist() == [True, False]
    with pytest.raises(IndexError, match="step 3: the run has 3 steps"):
        padded.batch(3, 0, 1, timeline)
    with pytest.raises(IndexError, match="step 2: the run has 2 steps"):
        dropped.batch(2, 0, 1, timeline)
    with pytest.raises(IndexError, match="step -1"):
        padded.batch(-1, 0, 1, timeline)


def test_a_finite_run_that_ends_with_a_batch_has_no_padding() -> None:
    timeline = Timeline.constant(5)
    for drop_last in (False, True):
        assert finite_plan([[4, 3], [3]], 1, drop_last=drop_last).steps(timeline) == 2
