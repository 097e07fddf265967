"""The rolling pool: every item once an epoch, at most K residents a chunk, open at any position, invertible."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.draws import key
from penstock.plan.pool import Pool

seeds = st.integers(0, 2**63)
residents = st.integers(1, 12)
group_sizes = st.one_of(
    st.lists(st.integers(1, 30), min_size=1, max_size=30),
    st.lists(st.sampled_from([1, 1, 1, 2, 300]), min_size=1, max_size=60),
)
Items = list[tuple[int, int]]


def walk(pool: Pool) -> Items:
    order: Items = []
    while len(order) < pool.length:
        block = pool.block_at(len(order), walking=True)
        assert block.start == len(order) and len(block.item)
        order += zip(block.group.tolist(), block.item.tolist(), strict=True)
    return order


def chunks(pool: Pool) -> list[Items]:
    """The chunks that hold anything, in order."""
    order, found = walk(pool), []
    high = 0
    while high < len(order):
        low, end = pool.chunk_bounds(high)
        assert low == high < end
        found.append(order[low:end])
        high = end
    return found


def all_items(sizes: list[int]) -> Items:
    return [(group, item) for group, size in enumerate(sizes) for item in range(size)]


@settings(deadline=None, max_examples=150)
@given(group_sizes, residents, seeds)
def test_every_item_comes_exactly_once_an_epoch(sizes: list[int], k: int, seed: int) -> None:
    pool = Pool(np.array(sizes), k, seed)
    assert pool.length == sum(sizes)
    assert sorted(walk(pool)) == all_items(sizes)


@settings(deadline=None, max_examples=150)
@given(group_sizes, residents, seeds)
def test_a_chunk_draws_from_at_most_k_groups(sizes: list[int], k: int, seed: int) -> None:
    pool = Pool(np.array(sizes), k, seed)
    for chunk in chunks(pool):
        assert len({group for group, _ in chunk}) <= min(k, len(sizes))


@settings(deadline=None)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=30), residents, seeds)
def test_groups_of_k_items_or_more_give_to_every_chunk_of_theirs(extra: list[int], k: int, seed: int) -> None:
    pool = Pool(np.array([k + n for n in extra]), k, seed)
    drawn = [{group for group, _ in chunk} for chunk in chunks(pool)]
    assert len(drawn) == max(0, len(extra) - k) + 1
    assert all(len(groups) == min(k, len(extra)) for groups in drawn)
    for before, after in pairwise(drawn):
        assert len(before - after) == len(after - before) == 1


@settings(deadline=None)
@given(group_sizes, residents, seeds)
def test_a_group_is_resident_once_and_for_at_most_k_chunks(sizes: list[int], k: int, seed: int) -> None:
    """Counted in chunks that hold anything; a group that left does not come back before the next epoch."""
    big = np.array(sizes) + k  # so that no chunk is empty and no group skips one
    seen: dict[int, list[int]] = {}
    for t, chunk in enumerate(chunks(Pool(big, k, seed))):
        for group in {group for group, _ in chunk}:
            seen.setdefault(group, []).append(t)
    for stay in seen.values():
        assert stay == list(range(stay[0], stay[-1] + 1))
        assert len(stay) <= k


@settings(deadline=None)
@given(group_sizes, residents, seeds)
def test_a_group_gives_its_chunks_even_parts(sizes: list[int], k: int, seed: int) -> None:
    big = [size + k for size in sizes]
    parts: dict[int, list[int]] = {}
    for chunk in chunks(Pool(np.array(big), k, seed)):
        for group in {group for group, _ in chunk}:
            parts.setdefault(group, []).append(sum(g == group for g, _ in chunk))
    for group, counts in parts.items():
        assert set(counts) <= {big[group] // len(counts), -(-big[group] // len(counts))}


@settings(deadline=None)
@given(group_sizes, residents, seeds, st.lists(st.integers(0, 10**6), min_size=1, max_size=20), st.booleans())
def test_a_seek_finds_what_a_walk_finds(sizes: list[int], k: int, seed: int, picks: list[int], walking: bool) -> None:
    order = walk(Pool(np.array(sizes), k, seed))
    pool = Pool(np.array(sizes), k, seed)
    for position in (pick % len(order) for pick in picks):
        block = pool.block_at(position, walking=walking)
        found = list(zip(block.group.tolist(), block.item.tolist(), strict=True))
        assert block.start <= position < block.start + len(found)
        assert found == order[block.start : block.start + len(found)]


@settings(deadline=None)
@given(group_sizes, residents, seeds, st.integers(0, 10**6))
def test_chunks_are_consecutive_and_hold_their_position(sizes: list[int], k: int, seed: int, pick: int) -> None:
    pool = Pool(np.array(sizes), k, seed)
    low, high = pool.chunk_bounds(pick % pool.length)
    assert 0 <= low <= pick % pool.length < high <= pool.length
    assert pool.chunk_bounds(low) == pool.chunk_bounds(high - 1) == (low, high)
    assert high == pool.length or pool.chunk_bounds(high)[0] == high


@settings(deadline=None, max_examples=60)
@given(group_sizes, residents, seeds)
def test_position_undoes_the_order(sizes: list[int], k: int, seed: int) -> None:
    pool = Pool(np.array(sizes), k, seed)
    order = walk(pool)
    step = max(1, len(order) // 40)
    for position in [*range(0, len(order), step), len(order) - 1]:
        assert pool.position(*order[position]) == position


def test_blocks_of_many_tiny_groups_are_seamless() -> None:
    """More items than a block holds, so that a walk crosses blocks of many chunks."""
    sizes = [1 + i % 3 for i in range(6_000)]
    pool = Pool(np.array(sizes), 7, 5)
    order = walk(pool)
    assert sorted(order) == all_items(sizes)
    assert len(pool.block_at(0).item) < len(order) / 2
    assert [pool.position(*order[p]) for p in range(0, 12_000, 997)] == list(range(0, 12_000, 997))


@given(seeds)
def test_orders_differ_by_seed_and_are_equal_for_equal_seeds(seed: int) -> None:
    sizes = np.full(12, 9)
    order = walk(Pool(sizes, 4, seed))
    assert order == walk(Pool(sizes, 4, seed))
    assert order != walk(Pool(sizes, 4, seed + 1))
    assert [item for _, item in order] != [item for _, item in walk(Pool(sizes, 4, seed + 1))]


# Chi-square of fixed seeds: deterministic. The limits are 99.9% points.


def test_single_items_do_not_bunch_at_an_end_of_their_stay() -> None:
    """Each of K residents of one item gives it to a chunk with chance 1/K: what chunks hold is binomial."""
    k, groups = 5, 3_000
    held = np.bincount([len(chunk) for chunk in chunks(Pool(np.ones(groups, dtype=np.int64), k, key(1, "bunch")))])
    all_chunks = groups - k + 1
    counts = np.array([all_chunks - held.sum(), held[1], held[2], held[3:].sum()])
    expected = np.array([0.8**5, 5 * 0.2 * 0.8**4, 10 * 0.2**2 * 0.8**3, 0.05792]) * all_chunks
    assert ((counts - expected) ** 2 / expected).sum() < 16.3


def test_one_pool_of_all_groups_is_uniform() -> None:
    """K = G: a plain shuffle. The first of six items is each of them equally often."""
    firsts = [int(Pool(np.array([1, 2, 3]), 3, seed).block_at(0).group[0]) for seed in range(1_800)]
    counts = np.bincount(firsts, minlength=3)
    expected = np.array([300, 600, 900])
    assert ((counts - expected) ** 2 / expected).sum() < 13.8
