"""An endless run: once an epoch over all lanes, lanes of their own, independent sources, invertible, substitutes."""

from dataclasses import replace
from math import gcd

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.plan.endless import Endless
from penstock.plan.lanes import is_split
from penstock.plan.mixture import Mixture
from penstock.plan.order import Order, Source
from penstock.plan.stream import Stream
from tests.plan.runs import Run, rows, runs


def own_sequences(run: Run, source: int, slots: int) -> dict[int, list[tuple[int, ...]]]:
    """What a source gives, draw after draw: in each lane if it is dealt to lanes, else in common."""
    spec = run.sources[source]
    dealt = is_split(spec.sizes, run.residents, run.lanes, spec.limit)
    found: dict[int, list[tuple[int, ...]]] = {}
    for slot, drawn, *what in rows(run.order().look_up(np.arange(slots))):
        if drawn == source:
            found.setdefault(slot % run.lanes if dealt else 0, []).append(tuple(what))
    return found


@settings(deadline=None, max_examples=30)
@given(runs())
def test_every_item_comes_exactly_once_an_epoch_over_all_lanes(run: Run) -> None:
    order = run.order()
    found = np.array(rows(order.look_up(np.arange(run.slots_for_epochs(2)))))
    for source, spec in enumerate(run.sources):
        uses = found[(found[:, 1] == source) & (found[:, 2] < 2)][:, 2:]
        assert len(np.unique(uses, axis=0)) == len(uses)
        assert (uses[:, 3] < spec.sizes[uses[:, 2]]).all()
        if run.changes[-1][1][source]:
            assert len(uses) == 2 * run.epoch_items(source) * spec.repeat


@settings(deadline=None, max_examples=40)
@given(runs(), st.integers(0, 10**12), st.integers(1, 60))
def test_slots_are_the_same_looked_up_all_at_once_or_a_few_at_a_time(run: Run, begin: int, few: int) -> None:
    slots, order = np.arange(begin, begin + 1000), run.order()
    pieces = [row for at in range(0, 1000, few) for row in rows(order.look_up(slots[at : at + few]))]
    assert rows(run.order().look_up(slots)) == pieces


@settings(deadline=None, max_examples=60)
@given(runs(), st.integers(0, 10**12), st.lists(st.lists(st.integers(0, 999), max_size=30), max_size=4))
def test_a_seek_finds_what_a_walk_finds(run: Run, begin: int, asked: list[list[int]]) -> None:
    walker, seeker = run.order(), run.order()
    walked = [row for at in range(begin, begin + 1000, 50) for row in rows(walker.look_up(np.arange(at, at + 50)))]
    for places in asked:
        slots = np.array(places, dtype=np.int64) + begin
        assert rows(seeker.look_up(slots)) == [walked[place] for place in places]


@settings(deadline=None, max_examples=10)
@given(runs(segments=1, all_drawn=True, split=True))
def test_a_lanes_items_stay_its_own_over_epochs_and_lanes_partition_them(run: Run) -> None:
    run = replace(run, sources=tuple(replace(source, limit=None, repeat=1) for source in run.sources))
    found = np.array(rows(run.order().look_up(np.arange(run.slots_for_epochs(3)))))
    for source, spec in enumerate(run.sources):
        uses = found[(found[:, 1] == source) & (found[:, 2] < 3)]
        owned = np.unique(np.stack([uses[:, 4], uses[:, 5], uses[:, 0] % run.lanes]), axis=1)  # group, item, lane
        assert len(uses) == 3 * spec.sizes.sum()
        assert owned.shape[1] == spec.sizes.sum()  # so no item has a second lane
        shares = np.bincount(owned[2])
        assert shares.max() - shares.min() <= 1
        pieces = np.unique(owned[[0, 2]], axis=1).shape[1]
        assert pieces < len(spec.sizes) + run.lanes  # only groups on the borders between lanes are cut


@settings(deadline=None, max_examples=15)
@given(runs(segments=1, all_drawn=True))
def test_epochs_differ(run: Run) -> None:
    assume(all(run.epoch_items(i) >= 20 for i in range(len(run.sources))))
    for source in range(len(run.sources)):
        for sequence in own_sequences(run, source, run.slots_for_epochs(2)).values():
            first, second = ([what[1:] for what in sequence if what[0] == epoch] for epoch in (0, 1))
            assert first != second


@settings(deadline=None, max_examples=25)
@given(runs(all_drawn=True), runs(all_drawn=True), st.data())
def test_a_sources_own_order_does_not_depend_on_other_sources_or_weights(
    run: Run, other: Run, data: st.DataObject
) -> None:
    """Others are added, taken away, renamed, resized and moved around it, and all weights change."""
    source = data.draw(st.integers(0, len(run.sources) - 1))
    spec = run.sources[source]
    others = [replace(others, name=f"{others.name}-too") for others in other.sources]
    place = data.draw(st.integers(0, len(others)))
    sources = (*others[:place], spec, *others[place:])
    lead = next(c for c in range(1, 5) if gcd(c + len(others), run.lanes) == 1)
    counts = (lead,) + (1,) * len(others)
    changed = replace(run, sources=sources, changes=((0, counts),))
    before, after = own_sequences(run, source, 1500), own_sequences(changed, place, 1500)
    assert before.keys() == after.keys()
    for lane, sequence in before.items():
        both = min(len(sequence), len(after[lane]))
        assert both > 10
        assert sequence[:both] == after[lane][:both]


def test_sources_of_one_shape_have_orders_of_their_own() -> None:
    sizes = np.full(12, 20)
    run = Run((Source("a", sizes), Source("b", sizes)), ((0, (1, 1)),), 1, 4, 7)
    assert own_sequences(run, 0, 480)[0] != own_sequences(run, 1, 480)[0]
    assert own_sequences(run, 0, 480) != own_sequences(replace(run, seed=8), 0, 480)


@settings(deadline=None, max_examples=50)
@given(runs(), st.integers(0, 10**10), st.lists(st.integers(0, 2000), min_size=1, max_size=12))
def test_slots_of_undoes_look_up(run: Run, far: int, near: list[int]) -> None:
    asked, order = run.order(), run.order()
    for slot, source, epoch, repeat, group, item in rows(asked.look_up(np.array([*near, *(far + i for i in near)]))):
        slots = sorted(order.slots_of(source, group, item, epoch))
        assert slots[repeat] == slot
        assert len(slots) <= run.sources[source].repeat
        back = rows(order.look_up(np.array(slots)))
        assert [row[1:] for row in back] == [(source, epoch, i, group, item) for i in range(len(slots))]


@settings(deadline=None, max_examples=30)
@given(runs(), st.data())
def test_slots_of_finds_every_use_and_no_other(run: Run, data: st.DataObject) -> None:
    order, horizon = run.order(), run.slots_for_epochs(1)
    walked = np.array(rows(order.look_up(np.arange(horizon))))
    for _ in range(5):
        source = data.draw(st.integers(0, len(run.sources) - 1))
        group = data.draw(st.integers(0, len(run.sources[source].sizes) - 1))
        item = data.draw(st.integers(0, int(run.sources[source].sizes[group]) - 1))
        epoch = data.draw(st.integers(0, 1))
        expected = walked[(walked[:, [1, 2, 4, 5]] == (source, epoch, group, item)).all(axis=1)][:, 0].tolist()
        assert sorted(s for s in order.slots_of(source, group, item, epoch) if s < horizon) == expected


@settings(deadline=None, max_examples=60)
@given(runs(), st.integers(0, 10**9))
def test_a_stand_in_is_another_item_of_the_same_source_epoch_and_lane(run: Run, slot: int) -> None:
    order = run.order()
    [planned] = rows(order.look_up(np.array([slot])))
    _, source, epoch, repeat, group, item = planned
    assert rows(order.stand_in(slot, 0)) == [planned]
    tried = [(group, item)]
    for attempt in range(1, 9):
        [(*same, other_group, other_item)] = rows(order.stand_in(slot, attempt))
        assert same == [slot, source, epoch, repeat]
        if (other_group, other_item) == (group, item):
            break  # around the whole chunk
        tried.append((other_group, other_item))
        found = order.slots_of(source, other_group, other_item, epoch)
        dealt = is_split(run.sources[source].sizes, run.residents, run.lanes, run.sources[source].limit)
        assert not dealt or all(s % run.lanes == slot % run.lanes for s in found)
    assert len(set(tried)) == len(tried)


def test_a_stand_in_is_another_item_while_its_chunk_has_one() -> None:
    order = Endless([Source("a", np.full(6, 3))], Mixture([(0, (1,))], 1), residents=2, seed=3)
    for slot in range(18):
        planned, other = rows(order.look_up(np.array([slot])))[0], rows(order.stand_in(slot, 1))[0]
        assert planned[4:] != other[4:]  # K = 2 and groups of 3: every chunk has at least 2


@settings(deadline=None, max_examples=60)
@given(runs(), st.integers(0, 10**9), st.integers(1, 300))
def test_a_batch_is_its_slots_by_lane(run: Run, start: int, size: int) -> None:
    order = run.order()
    slots = order.arrange([start], size)[0]
    assert sorted(slots.tolist()) == list(range(start, start + size))
    assert (np.diff(slots % run.lanes) >= 0).all()


def test_a_batch_is_shuffled_anew_within_each_lane() -> None:
    sources = [Source("a", np.full(4, 100))]
    one, other = (Endless(sources, Mixture([(0, (1,))], 3), residents=2, seed=seed) for seed in (1, 2))
    lanes = [
        one.arrange([start], 60)[0][lane * 20 : lane * 20 + 20] - start - lane for start in (0, 60) for lane in range(3)
    ]
    lanes += [other.arrange([0], 60)[0][:20]]
    assert all(sorted(lane.tolist()) == list(range(0, 60, 3)) for lane in lanes)
    assert len({tuple(lane.tolist()) for lane in lanes}) == 7


def test_no_place_of_a_batch_is_tied_to_a_source() -> None:
    """Three sources in turn, batches of 6: chi-square over (place, source), fixed seed, 99.9% point of 12."""
    sources = [Source(name, np.full(4, 100)) for name in "abc"]
    order = Endless(sources, Mixture([(0, (1, 1, 1))], 1), residents=2, seed=5)
    table = np.zeros((6, 3))
    for start in range(0, 6 * 3000, 6):
        table[np.arange(6), order.arrange([start], 6)[0] % 3] += 1
    assert table.sum() == 6 * 3000
    assert ((table - 1000) ** 2 / 1000).sum() < 32.9


@settings(deadline=None, max_examples=60)
@given(runs(), st.integers(0, 2_000), st.integers(1, 40))
def test_what_is_resident_is_of_every_source_what_it_drew_from_last(run: Run, start: int, size: int) -> None:
    order = run.order()
    resident = set(order.residents(np.arange(start, start + size)))
    now = [counts for first, counts in run.changes if first < start + size][-1]
    assert {source for source, _ in resident} == {source for source, count in enumerate(now) if count}
    last = dict[tuple[int, int], tuple[int, int]]()
    for slot, source, _, _, group, _ in rows(order.look_up(np.arange(start + size))):
        spec = run.sources[source]
        lane = slot % run.lanes if is_split(spec.sizes, run.residents, run.lanes, spec.limit) else start % run.lanes
        last[source, lane] = source, group
    lanes = {slot % run.lanes for slot in range(start, start + size)}
    assert {found for (source, lane), found in last.items() if lane in lanes and now[source]} <= resident


def test_quotas_are_the_weights_shares_of_the_slots_also_over_a_change() -> None:
    sources = [Source(name, np.full(4, 100)) for name in "ab"]
    order: Order = Endless(sources, Mixture([(0, (3, 1)), (40, (1, 1))], 1), residents=2, seed=5)
    quotas = order.quotas(20, 60)
    assert quotas is not None
    assert quotas.tolist() == [15 + 10, 5 + 10]


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_walk_and_slots_looked_up_alone_have_the_same_items(lanes: int) -> None:
    """Single items, blocks and windows are three ways to plan one order; a source in file order has no blocks."""
    sources = [Source("a", np.full(40, 100)), Source("b", np.full(3, 60)), Source("c", np.full(5, 30), shuffled=False)]

    def order() -> Endless:
        return Endless(sources, Mixture([(0, (3, 1, 1)), (1_500, (1, 1, 2))], lanes), residents=4, seed=5)

    walked = order()
    slots = np.arange(900, 5_000)
    walk = [row for at in range(0, len(slots), 40) for row in rows(walked.look_up(slots[at : at + 40]))]
    again = [row for at in range(0, len(slots), 40) for row in rows(walked.look_up(slots[at : at + 40]))]
    assert walk == again == rows(order().look_up(slots))
    picked = np.random.default_rng(lanes).choice(len(slots), 60, replace=False).tolist()
    alone = [rows(order().look_up(slots[at : at + 1]))[0] for at in picked]
    assert alone == [walk[at] for at in picked]


def test_a_cold_step_plans_no_block() -> None:
    """A block of each of 1,000 sources took two seconds."""
    sources = [Source(f"{number}", np.full(20, 50)) for number in range(200)]
    order = Endless(sources, Mixture([(0, (1,) * 200)], 1), residents=8, seed=5)
    order.look_up(np.arange(10_000, 10_200))
    assert not any(stream._found for stream in order._streams.values() if isinstance(stream, Stream))
    for start in range(10_200, 12_000, 200):  # a walk
        order.look_up(np.arange(start, start + 200))
    assert all(stream._found for stream in order._streams.values() if isinstance(stream, Stream))
