"""Log-mel spectrograms of speech: 1024 samples every 256, HTK mels up to 8 kHz, natural logarithm. Knows no files.

centred frames (ends mirrored) -> Hann -> |rfft 1024|² -> mel filters -> ln(max(·, 1e-10))
"""

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from penstock.media.audio.waveform import RATE
from penstock.runtime.torch_threads import one_torch_thread

FFT_SAMPLES = 1_024  # of a frame
HOP_SAMPLES = 256  # between the centres of two frames
HIGHEST_HERTZ = 8_000.0
MIN_ENERGY = 1e-10


def log_mel(waveform: Tensor, n_mels: int = 80, rate: int = RATE) -> Tensor:
    """Return the log-mel spectrogram of a sound. Runs on the calling thread only.

    A frame is centred at every multiple of 256 samples; before the first and after the last sample the sound is
    mirrored. It is computed in float32: energies are within 2e-5 of the largest energy of their frame.

    Args:
        waveform: Samples, float32, shape (n,). Up to 512 samples are extended with zeros, as they cannot be mirrored.
        n_mels: Number of mel filters.
        rate: Sample rate in Hz. Filters end at 8 kHz, or at half of that rate.

    Returns:
        Spectrogram, float32, shape (n_mels, n // 256 + 1).
    """
    padded = torch.nn.functional.pad(waveform, (0, max(0, FFT_SAMPLES // 2 + 1 - len(waveform))))
    with one_torch_thread():
        spectrum = torch.stft(
            padded, FFT_SAMPLES, HOP_SAMPLES, window=_hann(), center=True, pad_mode="reflect", return_complex=True
        )
        energies = _filters(n_mels, rate) @ spectrum.abs().square_()
        return energies.clamp_(min=MIN_ENERGY).log_()


@cache
def _hann() -> Tensor:
    with torch.inference_mode(False):  # tensors made in inference mode cannot be used outside it
        return torch.hann_window(FFT_SAMPLES, dtype=torch.float32, device="cpu")


@cache
def _filters(n_mels: int, rate: int) -> Tensor:
    """Return the mel filters, triangles over hertz, [n_mels, 513]."""
    with torch.inference_mode(False):
        return torch.from_numpy(mel_filters(n_mels, rate).astype(np.float32))


def mel_filters(n_mels: int, rate: int) -> NDArray[np.float64]:
    """Return triangular filters, equally spaced in HTK's mels: mel = 2595 log10(1 + hertz / 700).

    Returns:
        Filters, float64, shape (n_mels, 513).
    """
    highest = min(HIGHEST_HERTZ, rate / 2)
    mels = np.linspace(0.0, 2595.0 * np.log10(1.0 + highest / 700.0), n_mels + 2)
    corners = 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    hertz = np.arange(FFT_SAMPLES // 2 + 1) * (rate / FFT_SAMPLES)
    left, centre, right = (corners[start : start + n_mels, None] for start in range(3))
    rising = (hertz - left) / (centre - left)
    falling = (right - hertz) / (right - centre)
    filters: NDArray[np.float64] = np.maximum(0.0, np.minimum(rising, falling))
    return filters
