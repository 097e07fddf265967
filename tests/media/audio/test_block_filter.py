"""The figures that show equal quality: what passes, what folds back, against soxr itself."""

import numpy as np
import pytest
import soxr
import torch
from numpy.typing import NDArray

from penstock.media.audio.block_filter import block_filter
from penstock.media.audio.waveform import RATE

USUAL = [8_000, 11_025, 12_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000, 192_000]
DOWN = [22_050, 24_000, 32_000, 44_100, 48_000, 96_000, 192_000]


def tone(rate: int, hertz: float, frames: int) -> NDArray[np.float64]:
    return np.sin(2 * np.pi * hertz * np.arange(frames) / rate)


def by_blocks(rate: int, samples: NDArray[np.float64], size: int) -> NDArray[np.float32]:
    blocks = block_filter(rate)
    assert blocks is not None
    buffer = blocks.buffer(size)
    buffer.numpy()[:] = samples[: len(buffer)]
    return blocks.apply(buffer).numpy()[:size]


def gain_db(out: NDArray[np.float32], reference: float = np.sqrt(0.5)) -> float:
    return float(20 * np.log10(np.sqrt(np.mean(out.astype(np.float64) ** 2)) / reference + 1e-12))


@pytest.mark.parametrize("rate", USUAL)
def test_the_passband_is_flat_to_a_hundredth_of_a_decibel(rate: int) -> None:
    highest = 0.9 * min(rate, RATE) / 2
    for hertz in np.linspace(50, highest, 12):
        assert abs(gain_db(by_blocks(rate, tone(rate, hertz, rate * 3), 16_000 * 2))) < 1e-2


@pytest.mark.parametrize("rate", DOWN)
def test_what_is_above_8_khz_folds_back_at_less_than_minus_110_db_and_no_more_than_with_soxr(rate: int) -> None:
    for hertz in np.linspace(8_100, rate / 2 - 100, 12):
        samples = tone(rate, hertz, rate * 3)
        alias = gain_db(by_blocks(rate, samples, 32_000))
        assert alias < -110
        with_soxr = gain_db(soxr.resample(samples.astype(np.float32), rate, RATE)[4_000:36_000])
        assert alias < max(with_soxr, -120) + 3


@pytest.mark.parametrize("rate", USUAL)
def test_the_filter_is_soxrs_own(rate: int) -> None:
    noise = np.random.default_rng(rate).uniform(-1, 1, rate * 2)
    blocks = block_filter(rate)
    assert blocks is not None
    expected = soxr.resample(noise.astype(np.float32), rate, RATE)[blocks.lead :]
    # Two FFTs in float32 round full scale differently, on each CPU in its own way: 8e-7 was seen.
    assert np.abs(by_blocks(rate, noise, 16_000)[500:] - expected[500:16_000]).max() < 3e-6


def test_rates_without_a_common_factor_are_left_to_soxr() -> None:
    assert block_filter(22_051) is None


def test_the_same_samples_give_the_same_bits_every_time() -> None:
    noise = np.random.default_rng(0).uniform(-1, 1, 200_000)
    first = by_blocks(24_000, noise, 96_000)
    keep = []
    for size in range(20):
        keep.append(np.empty(1_000 * size + 7))  # so that memory lies elsewhere
        assert np.array_equal(by_blocks(24_000, noise, 96_000), first)


def test_a_trainers_own_defaults_change_nothing() -> None:
    samples = tone(24_000, 440, 24_000 * 3)
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"), torch.autocast("cpu"):
            inside = by_blocks(24_000, samples, 16_000)
    finally:
        torch.set_default_dtype(torch.float32)
    assert np.array_equal(inside, by_blocks(24_000, samples, 16_000))
