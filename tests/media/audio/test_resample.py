import numpy as np
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.media.audio.resample import TOLERANCE, read_resampled, resampled_length
from penstock.media.audio.waveform import RATE

RATES = [8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000, 192_000]


class Decoded:
    """A waveform that is decoded already and counts what is taken."""

    def __init__(self, samples: NDArray[np.float32], rate: int) -> None:
        self.samples, self.rate, self.frames, self.taken = samples, rate, len(samples), 0

    def read(self, start: int, out: NDArray[np.float32]) -> int:
        part = self.samples[start : start + len(out)]
        out[: len(part)] = part
        self.taken += len(part)
        return len(part)


def noise(frames: int) -> NDArray[np.float32]:
    """Full scale and white: the hardest input, every frequency at every instant."""
    return np.random.default_rng(frames).uniform(-1, 1, frames).astype(np.float32)


@given(st.integers(1_000, 200_000), st.integers(1, 3_000))
def test_the_length_is_the_one_that_soxr_gives(rate: int, frames: int) -> None:
    assert resampled_length(frames, rate) == (frames if rate == RATE else len(soxr.resample(noise(frames), rate, RATE)))


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(st.sampled_from(RATES), st.integers(4_000, 50_000)), st.floats(0.05, 3), st.floats(0, 1), st.floats(0, 1)
)
def test_a_resampled_crop_is_the_crop_of_the_resampled_whole(
    rate: int, seconds: float, at: float, share: float
) -> None:
    samples = noise(int(rate * seconds))
    expected = samples if rate == RATE else soxr.resample(samples, rate, RATE)
    size = max(1, int(share * len(expected)))
    start = int(at * (len(expected) - size))
    out = np.full(size, np.nan, np.float32)
    assert read_resampled(Decoded(samples, rate), start, out) == size
    assert np.abs(out - expected[start : start + size]).max() <= TOLERANCE


@pytest.mark.parametrize("rate", RATES)
def test_at_usual_rates_the_crop_differs_by_rounding_alone(rate: int) -> None:
    samples = noise(rate * 4)
    expected = samples if rate == RATE else soxr.resample(samples, rate, RATE)
    for start in (0, 1, 2, 777, 16_001, 31_999, 32_000):
        out = np.empty(32_000, np.float32)
        assert read_resampled(Decoded(samples, rate), start, out) == 32_000
        # Two FFTs in float32 round full scale differently, on each CPU in its own way: 9e-7 was seen.
        assert np.abs(out - expected[start : start + 32_000]).max() <= 3e-6


@pytest.mark.parametrize("rate", [8_000, 24_000, 44_100, 48_000])
def test_little_more_than_the_crop_is_taken(rate: int) -> None:
    wave = Decoded(noise(rate * 20), rate)
    read_resampled(wave, 100_000, np.empty(96_000, np.float32))
    assert wave.taken <= rate * 6 * 1.03
