"""Excluded items: never drawn since their slot, everything else in its place, invertible, never whole groups."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.plan.endless import Endless
from penstock.plan.excluding import Excluded
from penstock.plan.finite import Finite
from penstock.plan.mixture import Mixture
from penstock.plan.order import Source
from tests.plan.runs import Run, rows, runs

Since = dict[tuple[int, int, int], int]
"""Slot since which (source, group, item) is excluded."""


@dataclass(frozen=True)
class Case:
    run: Run
    since: Since

    def excluded(self) -> dict[int, Excluded]:
        return by_source(self.since, self.run.sources)

    def order(self) -> Endless:
        run = self.run
        turns = Mixture(run.changes, run.lanes)
        return Endless(run.sources, turns, residents=run.residents, seed=run.seed, excluded=self.excluded())


def by_source(since: Since, sources: tuple[Source, ...]) -> dict[int, Excluded]:
    found = {}
    for source in {source for source, _, _ in since}:
        own = np.array([(group, item, slot) for (s, group, item), slot in since.items() if s == source])
        found[source] = Excluded(*own.T, sources[source].known_sizes())
    return found


@st.composite
def cases(draw: st.DrawFn) -> Case:
    run = draw(runs())
    shuffled = draw(st.booleans())
    if not shuffled:
        kept = [Source(s.name, s.sizes, limit=s.limit, repeat=s.repeat, shuffled=False) for s in run.sources]
        run = Run(tuple(kept), run.changes, run.lanes, run.residents, run.seed)
    since: Since = {}
    starts = draw(st.lists(st.integers(0, 300), min_size=1, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    share = draw(st.sampled_from((0.02, 0.3, 0.8)))
    for source, spec in enumerate(run.sources):
        for group, size in enumerate(spec.known_sizes().tolist()):
            whole = rng.random() < share / 2
            since |= {
                (source, group, item): int(rng.choice(starts)) for item in range(size) if whole or rng.random() < share
            }
    assume(since)
    case = Case(run, since)
    try:
        case.order()
    except ValueError as error:
        assert "give the source the weight 0" in str(error)
        assume(False)
    return case


@settings(deadline=None, max_examples=25)
@given(cases())
def test_only_the_places_of_excluded_items_change(case: Case) -> None:
    slots = np.arange(600)
    before = rows(case.run.order().look_up(slots))
    after = rows(case.order().look_up(slots))
    for (slot, source, epoch, repeat, group, item), now in zip(before, after, strict=True):
        if case.since.get((source, group, item), slot + 1) > slot:
            assert now == (slot, source, epoch, repeat, group, item)
        else:
            assert now[:4] == (slot, source, epoch, repeat)
            assert case.since.get((source, *now[4:]), slot + 1) > slot


@settings(deadline=None, max_examples=15)
@given(cases(), st.lists(st.tuples(st.integers(0, 600), st.integers(1, 9)), max_size=20))
def test_no_substitute_is_an_excluded_item(case: Case, asked: list[tuple[int, int]]) -> None:
    order = case.order()
    for slot, attempt in asked:
        [(_, source, _, _, group, item)] = rows(order.stand_in(slot, attempt))
        assert case.since.get((source, group, item), slot + 1) > slot


@settings(deadline=None, max_examples=15)
@given(cases())
def test_a_bad_item_and_an_excluded_item_have_the_same_substitute(case: Case) -> None:
    order = case.order()
    plain = case.run.order()
    for slot, source, _, _, group, item in rows(plain.look_up(np.arange(300))):
        [instead] = rows(plain.stand_in(slot, 1))
        others = case.since.get((source, *instead[4:]), slot + 1) > slot
        if case.since.get((source, group, item), slot + 1) <= slot and others:
            assert rows(order.look_up(np.array([slot]))) == [instead]


@settings(deadline=None, max_examples=15)
@given(cases())
def test_slots_of_an_item_are_the_slots_that_hold_it(case: Case) -> None:
    order = case.order()
    uses = defaultdict(list)
    for slot, source, epoch, _, group, item in rows(order.look_up(np.arange(600))):
        uses[source, group, item, epoch].append(slot)
    asked = [*list(uses)[:40], *((*item, 0) for item in list(case.since)[:20])]
    for one in asked:
        assert sorted(slot for slot in order.slots_of(*one) if slot < 600) == uses.get(one, [])


@settings(deadline=None, max_examples=15)
@given(cases(), st.integers(0, 600))
def test_groups_that_are_excluded_whole_are_not_resident(case: Case, slot: int) -> None:
    slots = np.arange(slot, slot + 8)
    before = case.run.order().residents(slots)
    left = []
    for source, group in before:
        items = range(int(case.run.sources[source].known_sizes()[group]))
        if any(case.since.get((source, group, item), slot + 8) > slot + 7 for item in items):
            left.append((source, group))
    found = case.order().residents(slots)
    assert set(found) <= set(before)
    if all(start > slot + 7 or start == 0 for start in case.since.values()):
        assert found == left


@settings(deadline=None, max_examples=15)
@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), min_size=1, max_size=3), st.data())
def test_a_finite_run_leaves_the_slots_of_excluded_items_empty(sizes: list[list[int]], data: st.DataObject) -> None:
    sources = tuple(Source(f"s{number}", np.array(own)) for number, own in enumerate(sizes))
    items = [(s, g, i) for s, own in enumerate(sizes) for g, size in enumerate(own) for i in range(size)]
    since = data.draw(st.dictionaries(st.sampled_from(items), st.integers(0, len(items)), min_size=1))
    plain = Finite(sources, passes=2, residents=2, seed=1)
    order = Finite(sources, passes=2, residents=2, seed=1, excluded=by_source(since, sources))
    assert order.length == plain.length
    slots = np.arange(plain.length)
    for slot, was, now in zip(slots, rows(plain.look_up(slots)), rows(order.look_up(slots)), strict=True):
        _, source, epoch, _, group, item = was
        is_excluded = since.get((source, group, item), slot + 1) <= slot
        assert now == ((slot, -1, -1, -1, -1, -1) if is_excluded else was)
        assert order.slots_of(source, group, item, epoch) == ([] if is_excluded else [slot])


def test_a_source_that_is_excluded_whole_is_refused() -> None:
    sources = [Source("a", np.array([2, 1])), Source("b", np.array([4]))]
    every = Excluded(np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([7, 7, 7]), np.array([2, 1]))
    with pytest.raises(ValueError, match="3 items of source 'a' are excluded, and its epochs have 3"):
        Endless(sources, Mixture(((0, (1, 1)),), 1), residents=2, seed=0, excluded={0: every})
