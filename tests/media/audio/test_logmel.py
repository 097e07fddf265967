import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.media.audio.logmel import MIN_ENERGY, log_mel
from penstock.media.audio.sound import sound_samples
from tests.media.audio.clips import voice
from tests.media.movies import REAL


def reference(samples: NDArray[np.float32], n_mels: int, rate: int) -> NDArray[np.float64]:
    """Energies in float64, step by step: a loop over frames, and each triangle drawn by interpolation."""
    mirrored = np.pad(samples.astype(np.float64), 512, mode="reflect")
    window = np.sin(np.pi * np.arange(1024) / 1024) ** 2  # periodic
    frames = [mirrored[start : start + 1024] * window for start in range(0, len(samples) + 1, 256)]
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2
    highest = min(8_000, rate / 2)
    corners = 700 * (np.exp(np.linspace(0, np.log(1 + highest / 700), n_mels + 2)) - 1)
    hertz = np.linspace(0, rate / 2, 513)
    triangles = [np.interp(hertz, corners[k : k + 3], [0, 1, 0], left=0, right=0) for k in range(n_mels)]
    return power @ np.array(triangles).T


def check(samples: NDArray[np.float32], n_mels: int = 80, rate: int = 16_000) -> None:
    energies = reference(samples, n_mels, rate)
    found = log_mel(torch.from_numpy(samples), n_mels, rate)
    assert found.shape == (n_mels, len(samples) // 256 + 1) and found.dtype == torch.float32
    made = np.exp(found.numpy().astype(np.float64)).T
    # float32: the error of a bin is relative to the loudest bin of its frame. On one CPU it was 2.5e-6; FFTs differ.
    loudest = energies.max(axis=1, keepdims=True)
    assert (np.abs(made - np.maximum(energies, MIN_ENERGY)) <= 2e-5 * np.maximum(loudest, MIN_ENERGY)).all()
    clear = energies > np.maximum(1e-5 * loudest, MIN_ENERGY)
    assert np.abs(found.numpy().T[clear] - np.log(energies[clear])).max(initial=0.0) <= 1e-2


@pytest.mark.parametrize("name", ["2.wav", "3.flac"])
@pytest.mark.parametrize("n_mels", [80, 128])
def test_real_speech_gives_what_an_independent_implementation_gives(name: str, n_mels: int) -> None:
    check(sound_samples((REAL / name).read_bytes(), 10.0), n_mels)


@pytest.mark.parametrize("rate", [8_000, 22_050, 24_000])
def test_other_rates_have_filters_up_to_8_khz_or_half_the_rate(rate: int) -> None:
    check(voice(rate, 1.5)[:, 0], 64, rate)


@settings(deadline=None)
@given(st.integers(513, 4_000), st.integers(0, 2**32 - 1))
def test_any_length_is_framed_in_the_same_way(size: int, seed: int) -> None:
    check(np.random.default_rng(seed).normal(0, 0.1, size).astype(np.float32))


def test_silence_is_the_floor_and_short_sounds_are_followed_by_zeros() -> None:
    silent = log_mel(torch.zeros(2_000))
    assert torch.allclose(silent, torch.full_like(silent, float(np.log(MIN_ENERGY))))
    short = torch.from_numpy(voice(16_000, 0.02)[:, 0])
    assert torch.equal(log_mel(short), log_mel(torch.nn.functional.pad(short, (0, 513 - len(short)))))
    assert log_mel(short[:1]).shape == (80, 3)


def test_torch_settings_of_the_trainer_do_not_matter() -> None:
    wave = torch.from_numpy(voice(16_000, 0.5)[:, 0])
    with torch.inference_mode():
        expected = log_mel(wave, 40)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            assert torch.equal(log_mel(wave, 40), expected)
    finally:
        torch.set_default_dtype(torch.float32)
