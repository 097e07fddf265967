"""Packs: every sample once, no pack too full, little padding, and other neighbours in every epoch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.draws import key
from penstock.text.packs import deal, unit_tokens

seeds = st.integers(0, 2**64 - 1)


@st.composite
def groups(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    capacity = draw(st.integers(1, 300))
    return np.array(draw(st.lists(st.integers(1, capacity), max_size=60)), dtype=np.int64), capacity


@given(groups(), seeds)
def test_every_sample_is_in_one_pack_and_no_pack_is_too_full(group: tuple[np.ndarray, int], seed: int) -> None:
    lengths, capacity = group
    packs = deal(lengths, capacity, seed)
    assert sorted(packs.samples.tolist()) == list(range(len(lengths)))
    assert all(0 < lengths[packs[number]].sum() <= capacity for number in range(len(packs)))


@given(groups(), seeds)
def test_a_sample_is_in_the_pack_that_it_is_said_to_be_in(group: tuple[np.ndarray, int], seed: int) -> None:
    packs = deal(*group, seed)
    everyone = np.arange(len(packs.samples))
    for sample, pack in zip(everyone.tolist(), packs.of(everyone).tolist(), strict=True):
        assert sample in packs[pack].tolist()


def best_fit_decreasing(sizes: list[int], room: int) -> list[int]:
    """How full each pack is, by the algorithm of the textbooks."""
    packs: list[int] = []
    for size in sorted(sizes, reverse=True):
        fitting = [pack for pack in packs if pack + size <= room]
        if fitting:
            packs[packs.index(max(fitting))] += size
        else:
            packs.append(size)
    return sorted(packs)


@settings(deadline=None)
@given(st.lists(st.integers(1, 12), max_size=40), st.integers(12, 40), seeds)
def test_packs_are_as_full_as_by_the_textbook(units: list[int], room: int, seed: int) -> None:
    lengths = np.array(units, dtype=np.int64) * 1_000
    packs = deal(lengths, room * 1_000, seed)
    full = [int(lengths[packs[number]].sum()) // 1_000 for number in range(len(packs))]
    assert sorted(full) == best_fit_decreasing(units, room)


@given(groups(), seeds, seeds)
def test_epochs_have_equally_many_packs_with_the_same_rounded_lengths(
    group: tuple[np.ndarray, int], one: int, other: int
) -> None:
    lengths, capacity = group
    unit = unit_tokens(lengths)
    units = np.minimum(-(-lengths // unit), max(1, capacity // unit))  # the longest fill a pack
    first, second = deal(lengths, capacity, one), deal(lengths, capacity, other)
    np.testing.assert_array_equal(first.starts, second.starts)
    np.testing.assert_array_equal(units[first.samples], units[second.samples])


def lognormal(samples: int, capacity: int, median: int = 300, seed: int = 7) -> np.ndarray:
    return np.clip(np.random.default_rng(seed).lognormal(np.log(median), 1.0, samples).astype(np.int64), 1, capacity)


@pytest.mark.parametrize("samples", [2_400, 8_192])
@pytest.mark.parametrize("median", [100, 150, 300, 600])
def test_padding_is_at_most_one_percent_at_4096(samples: int, median: int) -> None:
    lengths = lognormal(samples, 4_096, median)
    packs = deal(lengths, 4_096, key("packs", 0))
    assert 1 - lengths.sum() / (len(packs) * 4_096) <= 0.01


@pytest.mark.parametrize("capacity", [512, 1_024, 4_096])
def test_small_sources_of_short_samples_have_at_most_one_percent_of_padding(capacity: int) -> None:
    sources = [lognormal(2_100, capacity, median=65, seed=seed) for seed in range(10)]  # about 105 tokens on average
    packs = [len(deal(lengths, capacity, key("packs", 0))) for lengths in sources]
    least = [-(-int(lengths.sum()) // capacity) for lengths in sources]
    assert all(more - fewer <= 1 for more, fewer in zip(packs, least, strict=True))
    assert 1 - sum(lengths.sum() for lengths in sources) / (sum(packs) * capacity) <= 0.01


@pytest.mark.parametrize(("mean", "unit"), [(1, 1), (255, 1), (256, 4), (480, 8), (4_000, 8)])
def test_lengths_of_short_samples_count_exactly(mean: int, unit: int) -> None:
    assert unit_tokens(np.array([mean, mean])) == unit


def test_short_samples_change_packs_from_epoch_to_epoch() -> None:
    lengths = lognormal(2_100, 1_024, median=65)
    everyone = np.arange(len(lengths))
    first, second = (deal(lengths, 1_024, key("packs", epoch)).of(everyone) for epoch in (0, 1))
    assert np.mean(first != second) > 0.25  # measured: 0.31


def test_most_samples_change_packs_from_epoch_to_epoch() -> None:
    lengths = lognormal(8_192, 4_096)
    everyone = np.arange(len(lengths))
    packs = [deal(lengths, 4_096, key("packs", epoch)).of(everyone) for epoch in range(3)]
    for one, other in ((0, 1), (1, 2), (0, 2)):
        assert np.mean(packs[one] != packs[other]) > 0.7  # measured: 0.79


def test_equal_arguments_give_equal_packs() -> None:
    lengths = lognormal(500, 2_048)
    first, second, third = (deal(lengths, 2_048, key("packs", epoch)) for epoch in (1, 1, 2))
    np.testing.assert_array_equal(first.samples, second.samples)
    assert (first.samples != third.samples).any()


def test_the_order_is_a_promise() -> None:
    lengths = np.array([40, 8, 16, 30, 9, 64, 25, 8])
    short = deal(lengths, 64, key(7, "golden"))
    long = deal(lengths * 21, 64 * 21, key(7, "golden"))
    assert [short[number].tolist() for number in range(len(short))] == [[5], [0, 2, 1], [3, 6, 4], [7]]
    assert [long[number].tolist() for number in range(len(long))] == [[5], [0, 2, 1], [3, 6, 7], [4]]


@pytest.mark.parametrize(
    ("length", "match"), [(65, "a sample of 65 tokens; packs hold samples of 1 to 64"), (0, "of 0 tokens")]
)
def test_an_impossible_length_is_refused(length: int, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        deal(np.array([8, length]), 64, 1)


def test_no_samples_are_no_packs() -> None:
    packs = deal(np.zeros(0, dtype=np.int64), 64, 1)
    assert len(packs) == 0 and list(packs) == []
    with pytest.raises(IndexError, match="pack 0 of 0"):
        packs[0]
