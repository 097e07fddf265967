"""Excluded items in batches by length: other places stay, substitutes fit, and uses undo the plan."""

from itertools import pairwise
from math import lcm

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.bylength import ByLength, WindowCut
from penstock.plan.draws import words
from penstock.plan.excluding import Excluded
from penstock.plan.finite import Finite
from penstock.plan.order import Planned, Source
from penstock.plan.plan import Plan
from penstock.plan.windowtimeline import WindowSegment, WindowTimeline
from tests.plan.runs import rows
from tests.plan.test_bylength import Cutting, cuttings, lengths, one_kind


def excluded_of(cutting: Cutting, since: int, share: int) -> dict[int, Excluded]:
    """About one item in ``share`` of every source, chosen by a hash; never all."""
    found = {}
    for number, source in enumerate(cutting.run.sources):
        sizes = source.known_sizes()
        group = np.repeat(np.arange(len(sizes)), sizes)
        item = np.concatenate([np.arange(size) for size in sizes])
        chosen = words(number + 9, np.arange(len(item))) % np.uint64(share) == 0
        if chosen.any() and not chosen.all():
            found[number] = Excluded(group[chosen], item[chosen], np.full(int(chosen.sum()), since), sizes)
    return found


def excluding(cutting: Cutting, excluded: dict[int, Excluded]) -> Plan:
    order = cutting.run.order()
    measure = lengths if len(cutting.timeline.segments[0].budget) > 1 else one_kind
    windows = ByLength(
        order, measure, lanes=cutting.run.lanes, seed=cutting.run.seed, alone=cutting.alone, excluded=excluded
    )
    return Plan(order, epoch=cutting.timeline.epoch, windows=windows)


def gone(planned: Planned, excluded: dict[int, Excluded]) -> list[bool]:
    """Whether each sample is an item that is excluded in its slot."""
    found = []
    for slot, source, _, _, group, item in rows(planned):
        own = excluded.get(source)
        found.append(
            own is not None and item >= 0 and int(own.since_of(np.array([group]), np.array([item]))[0]) <= slot
        )
    return found


@settings(deadline=None, max_examples=20)
@given(cuttings(), st.integers(0, 200), st.integers(2, 6))
def test_excluded_items_are_replaced_by_ones_that_fit_and_all_others_stay(
    cutting: Cutting, since: int, share: int
) -> None:
    excluded = excluded_of(cutting, since, share)
    plan = excluding(cutting, excluded)
    plain = cutting.plan()
    cut = plan.cut(cutting.timeline)
    assert isinstance(cut, WindowCut)
    for step in range(0, cutting.timeline.segments[-1].step + 40, 2):
        now = plan.batch(step, 0, 1, cutting.timeline)
        before = plain.batch(step, 0, 1, cutting.timeline)
        assert now.slot.tolist() == before.slot.tolist()
        assert not any(gone(now, excluded))
        was = gone(before, excluded)
        same = [a == b for a, b in zip(rows(now), rows(before), strict=True)]
        assert [each for each, out in zip(same, was, strict=True) if not out] == [True] * (len(was) - sum(was))
        opened = cut.opened(step)
        budget = lcm(*cutting.timeline.segments[opened.window.segment].budget)
        length, kind = lengths(now)
        scale = [budget // each for each in cutting.timeline.segments[opened.window.segment].budget]
        padded = np.where(now.item >= 0, length * np.array(scale)[kind if len(scale) > 1 else kind * 0], 0)
        for first, after in pairwise(opened.units(step).tolist()):
            fits = (after - first) * int(padded[first:after].max(initial=0)) <= budget
            assert fits or (cutting.alone and after - first == 1)


@settings(deadline=None, max_examples=20)
@given(cuttings(), st.integers(0, 200), st.integers(2, 6), st.integers(0, 60))
def test_uses_find_items_also_in_places_of_excluded_ones(cutting: Cutting, since: int, share: int, step: int) -> None:
    excluded = excluded_of(cutting, since, share)
    plan = excluding(cutting, excluded)
    batch = rows(plan.batch(step, 0, 1, cutting.timeline))
    for place, (_, source, epoch, _, group, item) in list(enumerate(batch))[:: max(1, len(batch) // 5)]:
        if item >= 0:
            uses = plan.uses(source, group, item, range(epoch, epoch + 1), world=1, timeline=cutting.timeline)
            assert (step, place) in [(use.step, use.slot) for use in uses]
    for source, own in excluded.items():
        item_uses = plan.uses(source, int(own.group[0]), int(own.item[0]), range(3), world=1, timeline=cutting.timeline)
        slots = [plan.batch(use.step, 0, 1, cutting.timeline).slot[use.slot] for use in item_uses]
        assert all(slot < since for slot in slots)


@settings(deadline=None, max_examples=20)
@given(cuttings(), st.integers(0, 100), st.integers(2, 4), st.integers(0, 60))
def test_a_bad_sample_is_never_replaced_by_an_excluded_one(cutting: Cutting, since: int, share: int, step: int) -> None:
    excluded = excluded_of(cutting, since, share)
    plan = excluding(cutting, excluded)
    cut = plan.cut(cutting.timeline)
    planned = plan.batch(step, 0, 1, cutting.timeline)
    for place, slot in list(enumerate(planned.slot.tolist()))[:4]:
        own = rows(planned)[place]
        tried = [cut.stand_in(slot, attempt) for attempt in range(1, 5)]
        items = [rows(instead)[0] for instead in tried if instead is not None]
        assert len(set(items)) == len(items) and own not in items
        assert not any(gone(instead, excluded)[0] for instead in tried if instead is not None)


def test_a_finite_run_leaves_places_of_excluded_items_empty() -> None:
    sizes = np.array([7, 5, 9])
    order = Finite([Source("a", sizes)], passes=2, residents=2, seed=3)
    excluded = {0: Excluded(np.array([1, 2]), np.array([3, 0]), np.array([0, 21]), sizes)}
    windows = ByLength(order, one_kind, lanes=1, seed=3, alone=True, excluded=excluded)
    plan = Plan(order, epoch=21, windows=windows)
    timeline = WindowTimeline((WindowSegment(0, 0, 1, (120,), 8, 4),), 21)
    steps = plan.steps(timeline)
    assert steps is not None
    found = [row for step in range(steps) for row in rows(plan.batch(step, 0, 1, timeline))]
    used = [(epoch, group, item) for _, _, epoch, _, group, item in found if item >= 0]
    assert len(used) == len(set(used)) == 2 * 21 - 3
    assert not {(0, 1, 3), (1, 1, 3), (1, 2, 0)} & set(used)
