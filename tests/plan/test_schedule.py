"""The schedule keeps every source within 1 - 1/(2L-2) of its quota, after every slot, in exact integers."""

from fractions import Fraction
from math import gcd

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.plan.schedule import Schedule, make_schedule
from penstock.plan.weights import slot_counts

HOURS = {
    "english": 10002,
    "telugu": 9123,
    "hindi": 9054,
    "punjabi": 8917,
    "malayalam": 7842,
    "gujarati": 6875,
    "kannada": 6263,
    "tamil": 5195,
    "bengali": 2981,
    "marathi": 2579,
    "odia": 2199,
    "assamese": 617,
}
few = st.lists(st.integers(0, 12), min_size=1, max_size=7).filter(any)
lopsided = st.lists(st.sampled_from([0, 1, 1, 2, 7, 97, 400]), min_size=1, max_size=40).filter(any)


def largest_deviation(schedule: Schedule) -> Fraction:
    """From quota, over all sources and all prefixes of the period; the stream repeats the period exactly."""
    largest = 0
    slots = np.arange(1, schedule.period + 1)
    for source, count in enumerate(schedule.counts.tolist()):
        drawn = np.cumsum(schedule.source == source)
        largest = max(largest, int(abs(drawn * schedule.period - slots * count).max()))
    return Fraction(largest, schedule.period)


def bound(counts: list[int]) -> Fraction:
    sources = sum(count > 0 for count in counts)
    return Fraction(0) if sources == 1 else 1 - Fraction(1, 2 * sources - 2)


@settings(deadline=None, max_examples=300)
@given(st.one_of(few, lopsided))
def test_every_prefix_is_within_the_bound_of_its_quota(counts: list[int]) -> None:
    schedule = make_schedule(tuple(counts))
    assert np.bincount(schedule.source, minlength=len(counts)).tolist() == counts
    assert largest_deviation(schedule) <= bound(counts)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(1.0, 1e3), min_size=2, max_size=60))
def test_the_bound_holds_over_the_long_period(weights: list[float]) -> None:
    counts = slot_counts({str(i): weight + 1e-7 for i, weight in enumerate(weights)}, lanes=2)
    assert largest_deviation(make_schedule(tuple(counts.values()))) <= bound(list(counts.values()))


@given(st.integers(2, 200))
def test_equal_counts_are_a_round_robin(sources: int) -> None:
    assert make_schedule((1,) * sources).source.tolist() == list(range(sources))


def test_the_twelve_languages_reach_the_bound_and_do_not_pass_it() -> None:
    counts = slot_counts(HOURS)
    schedule = make_schedule(tuple(counts.values()))
    assert schedule.period == 65_537
    deviation = largest_deviation(schedule)
    assert deviation <= Fraction(21, 22)
    assert f"{float(deviation):.4f}" == "0.9545"
    assert int(np.argmax(schedule.source == list(HOURS).index("assamese"))) <= 111


def check_index(schedule: Schedule) -> None:
    seen: dict[int, int] = {}
    for slot, source in enumerate(schedule.source.tolist()):
        rank = seen.setdefault(source, 0)
        assert schedule.rank[slot] == rank
        assert schedule.turns[schedule.first[source] + rank] == slot
        seen[source] += 1


@settings(deadline=None)
@given(few)
def test_rank_counts_earlier_slots_and_turns_are_its_inverse(counts: list[int]) -> None:
    check_index(make_schedule(tuple(counts)))


@settings(deadline=None)
@given(few, st.sampled_from([1, 3, 5, 7, 11, 13]))
def test_a_strided_schedule_visits_every_slot_of_the_period_once(counts: list[int], lanes: int) -> None:
    schedule = make_schedule(tuple(counts))
    assume(gcd(schedule.period, lanes) == 1)
    strided = schedule.strided(lanes)
    assert strided.source.tolist() == [
        int(schedule.source[i * lanes % schedule.period]) for i in range(schedule.period)
    ]
    assert np.bincount(strided.source, minlength=len(counts)).tolist() == counts
    check_index(strided)


@pytest.mark.parametrize("counts", [(1,), (0, 5, 0)])
def test_a_single_source_has_every_slot(counts: tuple[int, ...]) -> None:
    assert set(make_schedule(counts).source.tolist()) == {counts.index(max(counts))}
