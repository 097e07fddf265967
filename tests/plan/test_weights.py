"""Weights as whole numbers: exact where they can be, within one slot where not, and errors that name the source."""

from fractions import Fraction
from itertools import pairwise
from math import gcd

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.plan.weights import PERIOD, slot_counts, stages, temper

lane_numbers = st.integers(1, 64)
small_weights = st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(any)
any_weights = st.lists(st.floats(1e-2, 1e4), min_size=1, max_size=40)


def named(weights: list[float]) -> dict[str, float]:
    return {f"s{i}": weight for i, weight in enumerate(weights)}


@given(st.lists(st.one_of(st.integers(0, 10**6), st.floats(1e-2, 1e4)), min_size=1, max_size=30), lane_numbers)
def test_the_period_is_coprime_to_the_lanes(weights: list[float], lanes: int) -> None:
    assume(any(weights))
    assume(all(weight == 0 or weight / sum(weights) > 2 / PERIOD for weight in weights))
    counts = slot_counts(named(weights), lanes)
    assert gcd(sum(counts.values()), lanes) == 1
    assert list(counts) == list(named(weights))
    assert all((counts[name] > 0) == (weight > 0) for name, weight in named(weights).items())


@given(small_weights)
def test_small_whole_weights_keep_their_exact_ratio_in_lowest_terms(weights: list[int]) -> None:
    counts = list(slot_counts(named(weights)).values())
    assert [weight // gcd(*weights) for weight in weights] == counts


@given(any_weights, lane_numbers)
def test_a_count_is_within_one_slot_of_its_exact_share(weights: list[float], lanes: int) -> None:
    assume(all(weight / sum(weights) > 2 / PERIOD for weight in weights))
    counts = slot_counts(named(weights), lanes)
    period, total = sum(counts.values()), sum(Fraction(str(weight)) for weight in weights)
    for count, weight in zip(counts.values(), weights, strict=True):
        assert abs(count - Fraction(str(weight)) * period / total) < 1
    assert period <= PERIOD


@settings(max_examples=50)
@given(st.lists(st.integers(10**5, 10**7), min_size=2, max_size=30))
def test_slots_left_over_go_to_the_largest_remainders(weights: list[int]) -> None:
    common = gcd(*weights)
    assume(sum(weights) // common > PERIOD)
    counts = list(slot_counts(named(weights)).values())
    total = sum(weights)
    assert sum(counts) == PERIOD
    lifted = [
        weight * PERIOD % total for weight, n in zip(weights, counts, strict=True) if n > weight * PERIOD // total
    ]
    kept = [weight * PERIOD % total for weight, n in zip(weights, counts, strict=True) if n == weight * PERIOD // total]
    assert len(lifted) + len(kept) == len(weights)
    assert not lifted or min(lifted) >= max(kept)


@given(st.integers(1, 300), st.floats(1e-3, 1e6))
def test_equal_weights_are_one_slot_each(sources: int, weight: float) -> None:
    assert set(slot_counts(named([weight] * sources)).values()) == {1}


def test_equal_weights_over_lanes_that_share_a_factor_take_the_long_period() -> None:
    counts = slot_counts(named([1.0] * 12), lanes=4)
    assert sum(counts.values()) == PERIOD
    assert set(counts.values()) == {PERIOD // 12, PERIOD // 12 + 1}
    assert set(slot_counts(named([1.0] * 12), lanes=5).values()) == {1}


def test_decimal_weights_mean_what_they_say() -> None:
    assert slot_counts({"a": 0.1, "b": 0.2, "c": 0.7}) == {"a": 1, "b": 2, "c": 7}
    assert slot_counts({"a": 0.5, "b": 0, "c": 1.5}) == {"a": 1, "b": 0, "c": 3}


def test_a_total_of_exactly_the_period_is_kept() -> None:
    assert slot_counts({"a": 1, "b": PERIOD - 1}, lanes=6) == {"a": 1, "b": PERIOD - 1}


@pytest.mark.parametrize("bad", [-1.0, -0.001, float("inf"), float("nan")])
def test_a_weight_that_is_none_is_refused_by_name(bad: float) -> None:
    with pytest.raises(ValueError, match=r"weight of 'odia'"):
        slot_counts({"hindi": 1.0, "odia": bad})


def test_a_source_that_would_get_no_slot_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'assamese'.*less than one slot in 65,537"):
        slot_counts({"english": 1e9, "assamese": 1.0})


def test_a_mixture_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one source"):
        slot_counts({"a": 0, "b": 0.0})


HOURS = {"english": 10_002.0, "marathi": 2_579.0, "assamese": 617.0, "absent": 0.0}


def test_temperature_one_is_proportional() -> None:
    assert temper(HOURS, 1.0) == HOURS


def test_temperature_zero_is_equal_over_sources_that_have_anything() -> None:
    assert slot_counts(temper(HOURS, 0.0)) == {"english": 1, "marathi": 1, "assamese": 1, "absent": 0}


def test_temperature_is_a_power_of_the_amount() -> None:
    assert slot_counts(temper({"a": 16.0, "b": 81.0}, 0.5)) == {"a": 4, "b": 9}


@given(st.floats(0.0, 0.95), st.floats(1.5, 1e4), st.floats(1.0, 1e3))
def test_a_temperature_below_one_lifts_minorities(temperature: float, ratio: float, little: float) -> None:
    tempered = temper({"little": little, "much": little * ratio}, temperature)
    assert 1 <= tempered["much"] / tempered["little"] < ratio


def test_stages_are_equally_far_apart_and_sum_to_one() -> None:
    before, after = {"a": 3, "b": 1, "c": 0}, {"a": 0, "b": 1, "c": 1}
    path = [{name: Fraction(slots, 4) for name, slots in before.items()}, *stages(before, after, 5)]
    path.append({name: Fraction(slots, 2) for name, slots in after.items()})
    assert all(sum(weights.values()) == 1 for weights in path)
    for name in before:
        steps = {later[name] - earlier[name] for earlier, later in pairwise(path)}
        assert steps == {(path[-1][name] - path[0][name]) / 5}


def test_exact_weights_may_be_fractions() -> None:
    assert slot_counts({"a": Fraction(1, 3), "b": Fraction(2, 3)}) == {"a": 1, "b": 2}
