"""Draws counted in common and in a lane are those of a walk; the quota bound holds in every segment, in any lanes."""

from fractions import Fraction
from math import gcd

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plan.mixture import Mixture

Changes = list[tuple[int, tuple[int, ...]]]


@st.composite
def mixtures(draw: st.DrawFn, most_segments: int = 3) -> tuple[Changes, int]:
    """Changes of small periods, and a number of lanes that all of them are coprime to."""
    lanes, sources = draw(st.integers(1, 7)), draw(st.integers(1, 5))
    counts = st.tuples(*[st.integers(0, 6)] * sources).filter(lambda c: any(c) and gcd(sum(c), lanes) == 1)
    gaps = draw(st.lists(st.integers(0, 60), max_size=most_segments - 1))
    starts = np.cumsum([0, *gaps]).tolist()
    return [(start, draw(counts)) for start in starts], lanes


def mix(changes: Changes, lanes: int, slots: int) -> tuple[Mixture, list[int], list[int], list[int]]:
    mixture = Mixture(changes, lanes)
    source, common, own = mixture.draws(np.arange(slots))
    return mixture, source.tolist(), common.tolist(), own.tolist()


@settings(deadline=None, max_examples=150)
@given(mixtures())
def test_draws_are_counted_as_a_walk_counts_them(case: tuple[Changes, int]) -> None:
    changes, lanes = case
    _, source, common, own = mix(changes, lanes, changes[-1][0] + 150)
    in_common: dict[int, int] = {}
    in_lane: dict[tuple[int, int], int] = {}
    for slot, drawn in enumerate(source):
        assert common[slot] == in_common.setdefault(drawn, 0)
        assert own[slot] == in_lane.setdefault((slot % lanes, drawn), 0)
        in_common[drawn] += 1
        in_lane[slot % lanes, drawn] += 1


@settings(deadline=None)
@given(mixtures(), st.lists(st.integers(0, 10**13), min_size=1, max_size=20))
def test_a_slot_is_the_same_alone_as_among_others(case: tuple[Changes, int], slots: list[int]) -> None:
    changes, lanes = case
    together = np.stack(Mixture(changes, lanes).draws(np.array(slots)))
    alone = np.concatenate([np.stack(Mixture(changes, lanes).draws(np.array([slot]))) for slot in slots], axis=1)
    np.testing.assert_array_equal(together, alone)


@settings(deadline=None)
@given(mixtures(), st.integers(0, 10**13))
def test_slot_undoes_draws(case: tuple[Changes, int], far: int) -> None:
    changes, lanes = case
    mixture = Mixture(changes, lanes)
    slots = np.concatenate([np.arange(200), far + np.arange(50)])
    for slot, source, common, own in zip(slots.tolist(), *(a.tolist() for a in mixture.draws(slots)), strict=True):
        assert mixture.slot(source, common, None) == slot
        assert mixture.slot(source, own, slot % lanes) == slot


@settings(deadline=None)
@given(mixtures())
def test_a_draw_that_never_comes_has_no_slot(case: tuple[Changes, int]) -> None:
    changes, lanes = case
    mixture, source, _, _ = mix(changes, lanes, changes[-1][0])
    for gone in [i for i, count in enumerate(changes[-1][1]) if not count]:
        drawn = source.count(gone)
        assert mixture.slot(gone, drawn, None) is None
        if drawn:
            assert mixture.slot(gone, drawn - 1, None) is not None


@settings(deadline=None, max_examples=150)
@given(mixtures())
def test_every_prefix_of_every_segment_is_within_the_bound_in_any_lanes(case: tuple[Changes, int]) -> None:
    changes, lanes = case
    end = changes[-1][0] + 150
    _, source, _, _ = mix(changes, lanes, end)
    for (start, counts), stop in zip(changes, [*[s for s, _ in changes[1:]], end], strict=True):
        period, positive = sum(counts), sum(count > 0 for count in counts)
        bound = 1 - Fraction(1, 2 * positive - 2) if positive > 1 else Fraction(0)
        for i, count in enumerate(counts):
            drawn = np.cumsum(np.array(source[start:stop]) == i)
            quota = np.arange(1, stop - start + 1) * count  # in parts of a period
            assert Fraction(int(abs(drawn * period - quota).max(initial=0)), period) <= bound


@settings(deadline=None)
@given(mixtures(most_segments=1), st.integers(0, 10**10))
def test_every_lane_draws_each_source_its_count_in_any_period_of_lane_slots(
    case: tuple[Changes, int], begin: int
) -> None:
    [(_, counts)], lanes = case
    for lane in range(lanes):
        slots = (begin + np.arange(sum(counts))) * lanes + lane
        drawn, _, own = Mixture([(0, counts)], lanes).draws(slots)
        assert np.bincount(drawn, minlength=len(counts)).tolist() == list(counts)
        for i in np.flatnonzero(counts).tolist():
            assert np.diff(own[drawn == i]).tolist() == [1] * (counts[i] - 1)


@settings(deadline=None)
@given(mixtures())
def test_the_order_of_sources_does_not_depend_on_the_lanes(case: tuple[Changes, int]) -> None:
    changes, lanes = case
    _, source, common, _ = mix(changes, lanes, 200)
    _, plain, plain_common, plain_own = mix(changes, 1, 200)
    assert source == plain
    assert common == plain_common == plain_own


def test_the_twelve_languages_keep_their_shares_in_each_of_eight_lanes() -> None:
    counts = (9149, 8345, 8282, 8157, 7173, 6289, 5729, 4752, 2727, 2359, 2011, 564)
    assert sum(counts) == 65_537
    for lane in range(8):
        drawn, _, own = Mixture([(0, counts)], 8).draws(np.arange(65_537) * 8 + lane)
        assert np.bincount(drawn).tolist() == list(counts)
        assert all(np.array_equal(own[drawn == i], np.arange(count)) for i, count in enumerate(counts))


def test_a_period_that_shares_a_factor_with_the_lanes_is_refused() -> None:
    with pytest.raises(ValueError, match="invertible"):
        Mixture([(0, (1, 1))], 2)
