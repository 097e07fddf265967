"""A finite run: one pool over all sources, every item once a pass, padding marked and spread."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.finite import Finite
from penstock.plan.order import Order, Source
from penstock.plan.plan import Plan
from penstock.plan.timeline import Timeline
from tests.plan.runs import rows

several_sizes = st.lists(st.lists(st.integers(1, 20), min_size=1, max_size=10), min_size=1, max_size=4)


def finite(several: list[list[int]], passes: int = 1, residents: int = 4, seed: int = 1) -> Finite:
    sources = [Source(f"s{i}", np.array(sizes)) for i, sizes in enumerate(several)]
    return Finite(sources, passes=passes, residents=residents, seed=seed)


@settings(deadline=None)
@given(several_sizes, st.integers(1, 3), st.integers(1, 8), st.integers(0, 2**63))
def test_every_item_of_every_source_comes_once_a_pass(several: list[list[int]], passes: int, k: int, seed: int) -> None:
    order = finite(several, passes, k, seed)
    every = [(s, g, i) for s, sizes in enumerate(several) for g, size in enumerate(sizes) for i in range(size)]
    assert order.length == passes * len(every)
    found = rows(order.look_up(np.arange(order.length)))
    for nth in range(passes):
        one = found[nth * len(every) : (nth + 1) * len(every)]
        assert sorted((source, group, item) for _, source, _, _, group, item in one) == every
        assert {(epoch, repeat) for _, _, epoch, repeat, _, _ in one} == {(nth, 0)}


@settings(deadline=None)
@given(several_sizes, st.integers(1, 3), st.integers(0, 100))
def test_slots_beyond_the_end_are_marked(several: list[list[int]], passes: int, beyond: int) -> None:
    order = finite(several, passes)
    slots = np.array([order.length - 1, order.length + beyond, 0, order.length])
    found = rows(order.look_up(slots))
    assert [row[0] for row in found] == slots.tolist()
    assert found[1][1:] == found[3][1:] == (-1,) * 5
    assert min(found[0]) >= 0 and min(found[2]) >= 0


@settings(deadline=None)
@given(several_sizes, st.integers(1, 3), st.integers(1, 8), st.lists(st.integers(0, 10**6), min_size=1, max_size=20))
def test_slots_of_undoes_look_up_and_a_seek_is_a_walk(
    several: list[list[int]], passes: int, k: int, asked: list[int]
) -> None:
    order = finite(several, passes, k)
    walked = rows(order.look_up(np.arange(order.length)))
    slots = [i % order.length for i in asked]
    assert rows(finite(several, passes, k).look_up(np.array(slots))) == [walked[slot] for slot in slots]
    for slot, source, epoch, _, group, item in (walked[slot] for slot in slots):
        assert order.slots_of(source, group, item, epoch) == [slot]
        assert order.slots_of(source, group, item, passes) == []


@given(st.integers(1, 60), st.integers(1, 60))
def test_the_samples_of_the_last_batch_are_spread_evenly_over_its_columns(size: int, left: int) -> None:
    samples = min(left, size)
    order = finite([[size + samples]])
    [first, last] = order.arrange([0, size], size).tolist()
    assert first == list(range(size))
    assert [last.index(size + i) for i in range(samples)] == [i * size // samples for i in range(samples)]
    assert [slot for slot in last if slot >= order.length] == list(range(order.length, 2 * size))


@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_every_rank_has_a_sample_of_the_last_batch_if_there_are_as_many_as_ranks(
    world: int, each: int, data: st.DataObject
) -> None:
    size = world * each
    samples = data.draw(st.integers(world, size))
    timeline = Timeline.constant(size)
    plan = Plan(finite([[size + samples]]))
    for rank in range(world):
        assert (plan.batch(1, rank, world, timeline).item >= 0).any()


def test_sources_are_mixed_and_passes_differ() -> None:
    order = finite([[10] * 8, [10] * 8], passes=2, residents=8)
    found = rows(order.look_up(np.arange(320)))
    assert len({source for _, source, *_ in found[:30]}) == 2
    assert [row[4:] for row in found[:160]] != [row[4:] for row in found[160:]]


def test_a_bad_item_leaves_its_slot_empty_and_no_source_has_a_quota() -> None:
    order: Order = finite([[10] * 8, [10] * 8])
    assert [order.stand_in(7, attempt) for attempt in range(1, 9)] == [None] * 8
    assert order.quotas(0, 100) is None
