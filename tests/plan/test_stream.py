"""One source epoch after epoch: open at any index in any order, every item once an epoch, and invertible."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.lanes import deal, whole
from penstock.plan.stream import Stream


@st.composite
def streams(draw: st.DrawFn, *, only_small: bool = False) -> tuple[Stream, Stream]:
    """The same stream twice: one to walk, one to ask out of order. Whole sources and lanes of them."""
    small = st.lists(st.integers(1, 25), min_size=4, max_size=25)
    large = st.lists(st.sampled_from([1, 2, 1500]), min_size=4, max_size=9)  # an epoch of several blocks
    sizes = np.array(draw(small if only_small else st.one_of(small, large)))
    seed = draw(st.integers(0, 2**63))
    share = draw(st.sampled_from([whole(sizes), *deal(sizes, 4, seed, "a")]))
    limit = draw(st.one_of(st.none(), st.integers(1, 200)))
    residents, repeat = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    one, other = (Stream(share, residents, seed, "a", limit=limit, repeat=repeat) for _ in range(2))
    return one, other


def picked(stream: Stream, indices: list[int]) -> list[tuple[int, int, int, int]]:
    picks = stream.picks(np.array(indices, dtype=np.int64))
    columns = (picks.epoch, picks.repeat, picks.group, picks.item)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@settings(deadline=None, max_examples=150)
@given(streams())
def test_every_epoch_has_each_item_at_most_once_and_each_in_its_repeats(pair: tuple[Stream, Stream]) -> None:
    stream, _ = pair
    for epoch in range(3):
        found = picked(stream, list(range(epoch * stream.count_indices(), (epoch + 1) * stream.count_indices())))
        assert {e for e, _, _, _ in found} == {epoch}
        assert len(set(found)) == stream.count_indices()
        assert len({(group, item) for _, _, group, item in found}) == stream.items


@settings(deadline=None)
@given(st.lists(st.integers(1, 25), min_size=1, max_size=25), st.integers(1, 400), st.integers(1, 3))
def test_an_epoch_is_all_items_or_the_limit_if_that_is_less(sizes: list[int], limit: int, repeat: int) -> None:
    every = {(group, item) for group, size in enumerate(sizes) for item in range(size)}
    unlimited = Stream(whole(np.array(sizes)), 4, 1, "a")
    limited = Stream(whole(np.array(sizes)), 4, 1, "a", limit=limit, repeat=repeat)
    assert {p[2:] for p in picked(unlimited, list(range(unlimited.count_indices())))} == every
    assert limited.items == min(len(every), limit)
    assert limited.count_indices() == limited.items * repeat
    seen = {p[2:] for p in picked(limited, list(range(2 * limited.count_indices())))}
    assert seen <= every


@settings(deadline=None)
@given(streams())
def test_repeats_come_in_a_row(pair: tuple[Stream, Stream]) -> None:
    stream, _ = pair
    found = picked(stream, list(range(2 * stream.count_indices())))
    times = stream.count_indices() // stream.items
    for i in range(0, len(found), times):
        assert [repeat for _, repeat, _, _ in found[i : i + times]] == list(range(times))
        assert len({(epoch, group, item) for epoch, _, group, item in found[i : i + times]}) == 1


@settings(deadline=None)
@given(streams(), st.lists(st.lists(st.integers(0, 10**12), max_size=12), max_size=6), st.integers(0, 10**9))
def test_a_seek_finds_what_a_walk_finds(pair: tuple[Stream, Stream], asked: list[list[int]], epoch: int) -> None:
    walked, sought = pair
    begin, stretch = epoch * walked.count_indices(), 3 * walked.count_indices()
    order: list[tuple[int, int, int, int]] = []
    while len(order) < stretch:  # in uneven steps, as batches take them
        order += picked(walked, list(range(begin + len(order), begin + min(stretch, len(order) + 17))))
    for indices in asked:
        near = [i % stretch for i in indices]
        assert picked(sought, [begin + i for i in near]) == [order[i] for i in near]


@settings(deadline=None)
@given(streams(), st.integers(0, 1000), st.lists(st.integers(0, 10**6), min_size=1, max_size=15))
def test_indices_undo_picks(pair: tuple[Stream, Stream], epoch: int, asked: list[int]) -> None:
    stream, other = pair
    indices = [epoch * stream.count_indices() + i % stream.count_indices() for i in asked]
    for index, (found_epoch, repeat, group, item) in zip(indices, picked(stream, indices), strict=True):
        back = other.indices(group, item, found_epoch).tolist()
        times = stream.count_indices() // stream.items
        assert back == list(range(index - repeat, index - repeat + times))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 12), min_size=4, max_size=12), st.integers(1, 40), st.integers(0, 5))
def test_an_item_beyond_the_limit_or_in_another_lane_has_no_index(sizes: list[int], limit: int, epoch: int) -> None:
    for share in deal(np.array(sizes), 3, 7, "a"):
        stream = Stream(share, 3, 7, "a", limit=limit)
        here = {
            p[2:]
            for p in picked(stream, list(range(epoch * stream.count_indices(), (epoch + 1) * stream.count_indices())))
        }
        for group, size in enumerate(sizes):
            for item in range(size):
                assert (len(stream.indices(group, item, epoch)) == 1) == ((group, item) in here)


def test_epochs_and_names_and_seeds_differ() -> None:
    share = whole(np.full(20, 8))
    orders = [
        [p[2:] for p in picked(Stream(share, 4, seed, name), list(range(epoch * 160, (epoch + 1) * 160)))]
        for seed, name, epoch in [(1, "a", 0), (1, "a", 1), (1, "a", 2), (1, "b", 0), (2, "a", 0)]
    ]
    assert all(sorted(order) == sorted(orders[0]) for order in orders)
    assert len({tuple(order) for order in orders}) == 5


@settings(deadline=None)
@given(streams(only_small=True), st.integers(0, 10**9))
def test_neighbours_go_around_the_chunk_before_they_come_back(pair: tuple[Stream, Stream], index: int) -> None:
    stream, _ = pair
    attempts = [stream.neighbour(index, attempt) for attempt in range(stream.items)]
    size = len(set(attempts))
    ring = attempts[:size]
    assert len(set(ring)) == size
    found = picked(stream, ring)
    assert stream.neighbour(index, 0) == index
    assert len({(group, item) for _, _, group, item in found}) == size
    assert len({(epoch, repeat) for epoch, repeat, _, _ in found}) == 1
    assert {stream.neighbour(ring[-1], attempt) for attempt in range(size)} == set(ring)  # one chunk for all in it
