"""Randomness as a function: framed keys, true permutations, close to uniform over keys."""

from itertools import permutations as all_orders

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.draws import inverse, key, permutation, permutations, ranges, words

parts = st.lists(st.one_of(st.integers(), st.text(max_size=8)), max_size=4)
seeds = st.integers(0, 2**64 - 1)
sizes = st.lists(st.integers(0, 60), min_size=1, max_size=12)


def chi_square(counts: np.ndarray) -> float:
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


@given(parts, parts)
def test_keys_are_equal_only_when_their_parts_are(one: list[int | str], other: list[int | str]) -> None:
    assert (key(*one) == key(*other)) == (one == other)


def test_keys_frame_their_parts_and_tell_a_number_from_its_name() -> None:
    assert len({key("ab", "c"), key("a", "bc"), key("abc"), key("abc", ""), key(1), key("1"), key(1, 1), key(11)}) == 8


@given(seeds, st.lists(st.integers(0, 2**62), min_size=1, max_size=50))
def test_a_word_depends_on_its_key_and_index_alone(seed: int, indices: list[int]) -> None:
    together = words(seed, np.array(indices))
    alone = [int(words(seed, np.array([index]))[0]) for index in indices]
    by_keys = words(np.full(len(indices), seed, dtype=np.uint64), np.array(indices))
    assert together.tolist() == alone == by_keys.tolist()


def test_words_are_splitmix64() -> None:
    # The first outputs of the reference generator from state 1234567.
    assert words(1234567, np.arange(3)).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@settings(deadline=None)
@given(seeds, sizes)
def test_permutations_made_together_are_those_made_alone(seed: int, several: list[int]) -> None:
    keys = words(seed, np.arange(len(several)))
    together = np.split(permutations(keys, np.array(several)), np.cumsum(several)[:-1])
    for own_key, size, order in zip(keys.tolist(), several, together, strict=True):
        assert sorted(order.tolist()) == list(range(size))
        assert order.tolist() == permutation(own_key, size).tolist()


def test_many_large_permutations_are_the_same_as_one_by_one() -> None:
    # 300 of up to 2**17: rank and index together need 26 bits, more than a sort key has room for.
    several = np.full(300, 3)
    several[[0, 150, 299]] = 1 << 17, 70_000, 100_001
    keys = words(5, np.arange(300))
    together = np.split(permutations(keys, several), np.cumsum(several)[:-1])
    for i in (0, 1, 149, 150, 298, 299):
        np.testing.assert_array_equal(together[i], permutation(int(keys[i]), int(several[i])))
        np.testing.assert_array_equal(np.sort(together[i]), np.arange(several[i]))


def test_a_permutation_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"16777217 elements; at most 16777216"):
        permutation(1, 2**24 + 1)


@given(seeds, st.integers(0, 200))
def test_inverse_undoes_a_permutation(seed: int, size: int) -> None:
    order = permutation(seed, size)
    assert order[inverse(order)].tolist() == inverse(order)[order].tolist() == list(range(size))


@given(st.lists(st.integers(0, 9), max_size=9))
def test_ranges_stand_one_behind_the_other(several: list[int]) -> None:
    expected = [i for size in several for i in range(size)]
    assert ranges(np.array(several, dtype=np.int64)).tolist() == expected


# Chi-square of fixed keys: deterministic. The limits are the 99.9% points of 23, 35 and 99 degrees of freedom.


def test_orders_of_four_are_uniform_over_keys() -> None:
    keys = np.array([key(seed, "uniform") for seed in range(12_000)], dtype=np.uint64)
    orders = permutations(keys, np.full(len(keys), 4)).reshape(-1, 4)
    counts = [int((orders == order).all(axis=1).sum()) for order in all_orders(range(4))]
    assert sum(counts) == 12_000
    assert chi_square(np.array(counts)) < 49.7


def test_orders_of_neighbouring_keys_are_independent() -> None:
    orders = permutations(words(key(3, "items"), np.arange(36_001)), np.full(36_001, 3)).reshape(-1, 3)
    _, which = np.unique(orders, axis=0, return_inverse=True)
    which = which.ravel()
    pairs = np.bincount(which[:-1] * 6 + which[1:], minlength=36)
    assert chi_square(pairs) < 66.6


def test_every_element_is_as_likely_in_every_place() -> None:
    # Of a 10 x 10 table of (place, element) only 81 cells are free, so 99 degrees are a generous limit.
    orders = permutations(words(key(4, "chunk"), np.arange(20_000)), np.full(20_000, 10)).reshape(-1, 10)
    table = np.bincount((orders + 10 * np.arange(10)).ravel(), minlength=100)
    assert chi_square(table) < 149.4
