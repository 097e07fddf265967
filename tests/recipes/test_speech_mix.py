"""The worked example of mixed-language batches: 12 languages by hours, at batch sizes 16 to 128."""

from fractions import Fraction

import numpy as np
import pytest

from penstock.cli.demos.mix_data import HOURS
from penstock.plan.endless import Endless
from penstock.plan.mixture import Mixture
from penstock.plan.order import Source
from penstock.plan.plan import Plan
from penstock.plan.timeline import Timeline
from penstock.plan.weights import slot_counts, temper

TOTAL = sum(HOURS.values())
ASSAMESE = list(HOURS).index("assamese")


def mixed(temperature: float = 1.0, lanes: int = 1) -> Plan:
    sources = [Source(name, np.full(64, 40)) for name in HOURS]
    counts = tuple(slot_counts(temper(HOURS, temperature), lanes).values())
    return Plan(Endless(sources, Mixture([(0, counts)], lanes), residents=4, seed=3))


def drawn(plan: Plan, batch_size: int, steps: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Samples of each language after each batch."""
    timeline = Timeline.constant(batch_size)
    each = [np.bincount(plan.batch(step, 0, 1, timeline).source, minlength=len(HOURS)) for step in range(steps)]
    return np.cumsum(each, axis=0)


def test_after_the_first_batch_of_16_every_language_is_within_the_bound_of_its_share() -> None:
    first = drawn(mixed(), 16, 1)[0]
    assert first.sum() == 16
    bound = 1 - Fraction(1, 2 * len(HOURS) - 2) + Fraction(16, 65_537)  # the weights' own rounding
    for count, (name, hours) in zip(first.tolist(), HOURS.items(), strict=True):
        assert abs(count - Fraction(16 * hours, TOTAL)) <= bound, name


@pytest.mark.parametrize(("batch_size", "batch"), [(16, 7), (32, 4), (64, 2), (128, 1)])
def test_assamese_comes_first_in_that_batch_at_the_latest(batch_size: int, batch: int) -> None:
    counts = drawn(mixed(), batch_size, batch)
    assert counts[-1, ASSAMESE] >= 1


@pytest.mark.parametrize("batch_size", [16, 32, 64, 128])
@pytest.mark.parametrize("lanes", [1, 3])
def test_proportions_are_exact_over_time_at_any_batch_size(batch_size: int, lanes: int) -> None:
    counts = drawn(mixed(lanes=lanes), batch_size, 3_200 // batch_size)
    samples = batch_size * np.arange(1, len(counts) + 1)
    quota = samples[:, None] * np.array(list(HOURS.values())) / TOTAL
    assert np.abs(counts - quota).max() <= 1


def test_temperature_lifts_minorities_and_zero_makes_all_equal() -> None:
    shares = [drawn(mixed(t), 128, 50)[-1] / 6_400 for t in (1.0, 0.5, 0.0)]
    assert shares[0][ASSAMESE] < shares[1][ASSAMESE] < shares[2][ASSAMESE]
    assert np.abs(shares[2] - 1 / 12).max() < 1e-3
