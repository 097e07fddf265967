"""Lanes partition a source's items, evenly, each border piece one range in file order."""

from itertools import chain

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.plan.lanes import Share, deal, is_split, lane_limit, whole

group_sizes = st.lists(st.integers(1, 40), min_size=1, max_size=30)
lane_numbers = st.integers(2, 9)


def items(share: Share) -> list[tuple[int, int]]:
    pieces = zip(share.group.tolist(), share.first.tolist(), share.size.tolist(), strict=True)
    return [(group, first + i) for group, first, size in pieces for i in range(size)]


@settings(deadline=None)
@given(group_sizes, lane_numbers, st.integers(0, 2**63))
def test_lanes_partition_the_items_into_equal_numbers(sizes: list[int], lanes: int, seed: int) -> None:
    shares = [items(share) for share in deal(np.array(sizes), lanes, seed, "hindi")]
    assert sorted(chain(*shares)) == [(group, i) for group, size in enumerate(sizes) for i in range(size)]
    assert {len(share) for share in shares} <= {sum(sizes) // lanes, -(-sum(sizes) // lanes)}


@settings(deadline=None)
@given(group_sizes, lane_numbers, st.integers(0, 2**63))
def test_only_the_first_and_last_piece_of_a_lane_may_be_cut(sizes: list[int], lanes: int, seed: int) -> None:
    assume(sum(sizes) >= lanes)  # as is_split sees to, amply
    for share in deal(np.array(sizes), lanes, seed, "hindi"):
        assert len(set(share.group.tolist())) == len(share.group)
        assert (share.size >= 1).all()
        assert (share.first[1:] == 0).all()
        np.testing.assert_array_equal((share.first + share.size)[:-1], np.array(sizes)[share.group][:-1])


def test_the_deal_depends_on_the_seed_and_the_source_and_on_nothing_else() -> None:
    sizes = np.full(40, 5)
    dealt = [
        [s.group.tolist() for s in deal(sizes, 4, seed, name)]
        for seed, name in [(1, "a"), (1, "a"), (2, "a"), (1, "b")]
    ]
    assert dealt[0] == dealt[1]
    assert dealt[0] != dealt[2] and dealt[0] != dealt[3]


def test_all_of_a_source_is_every_group_from_its_first_item_on() -> None:
    assert items(whole(np.array([2, 1]))) == [(0, 0), (0, 1), (1, 0)]


def test_a_source_is_split_from_k_groups_and_a_thousand_items_a_lane_on() -> None:
    assert is_split(np.full(32, 125), 8, 4)
    assert not is_split(np.full(31, 1000), 8, 4)
    assert not is_split(np.array([125] * 31 + [124]), 8, 4)
    assert not is_split(np.full(32, 125), 8, 1)


def test_a_source_that_is_small_by_its_limit_is_not_split() -> None:
    assert is_split(np.full(40, 1000), 8, 4, limit=4000)
    assert not is_split(np.full(40, 1000), 8, 4, limit=3999)


@settings(max_examples=300)
@given(st.integers(1, 40), st.integers(1, 45), st.integers(1, 9))
def test_lane_limits_add_up_and_none_is_above_what_its_lane_has(total: int, limit: int, lanes: int) -> None:
    has = [total * (lane + 1) // lanes - total * lane // lanes for lane in range(lanes)]
    limits = [lane_limit(limit, total, lane, lanes) for lane in range(lanes)]
    assert sum(limits) == limit
    assert sum(min(pair) for pair in zip(has, limits, strict=True)) == min(total, limit)
