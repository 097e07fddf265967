"""Sounds as pictures: the outline of a waveform and a mel spectrogram. numpy only."""

import numpy as np
from numpy.typing import NDArray

Sound = NDArray[np.floating]

_FRAME_SAMPLES = 512
_RANGE_DECIBELS = 70.0
# From dark blue, which is quiet, over violet and orange to pale yellow.
_STOPS = np.array([(11, 12, 33), (62, 28, 96), (141, 41, 103), (217, 84, 66), (250, 157, 58), (252, 244, 182)])
COLOURS = np.stack([np.interp(np.linspace(0, 5, 256), np.arange(6), each) for each in _STOPS.T], -1).astype(np.uint8)
"""RGB colours of the shades of a spectrogram, shape (256, 3)."""


def peaks(samples: Sound, columns: int) -> Sound:
    """Return the lowest and the highest sample of each column, shape (columns, 2). Fewer samples are repeated.

    Args:
        samples: Mono samples.
        columns: Number of columns.
    """
    if not len(samples):
        return np.zeros((columns, 2), np.float32)
    bounds = np.linspace(0, len(samples), columns + 1)[:-1].astype(np.int64)
    low = np.minimum.reduceat(samples, bounds)
    return np.stack([low, np.maximum.reduceat(samples, bounds)], axis=1)


def mel_shades(samples: Sound, rate: int, width: int, height: int) -> NDArray[np.uint8]:
    """Return a spectrogram with equal steps in mels, low frequencies below. Shades range over 70 dB.

    Args:
        samples: Mono samples.
        rate: Sample rate in Hz.
        width: Maximum number of columns.
        height: Number of rows.

    Returns:
        Shades, shape (height, columns).
    """
    padded = np.pad(np.asarray(samples, np.float32), _FRAME_SAMPLES // 2)
    hop = max(_FRAME_SAMPLES // 4, -(-len(samples) // width))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FRAME_SAMPLES)[::hop][:width]
    power = np.abs(np.fft.rfft(frames * np.hanning(_FRAME_SAMPLES).astype(np.float32))) ** 2
    hertz = 700 * (10 ** (np.linspace(0, _mel(rate / 2), height + 2) / 2595) - 1)
    bins = hertz * _FRAME_SAMPLES / rate
    filters = np.stack([np.interp(np.arange(power.shape[1]), bins[at : at + 3], [0, 1, 0]) for at in range(height)])
    # Low filters are narrower than a bin: they take the nearest.
    filters[np.arange(height), np.rint(bins[1:-1]).astype(int)] += 1e-3
    energy = power @ filters.T / filters.sum(axis=1)
    decibels = 10 * np.log10(np.maximum(energy.T[::-1], 1e-10))
    shades: NDArray[np.floating] = np.clip(1 + (decibels - decibels.max()) / _RANGE_DECIBELS, 0, 1) * 255
    return shades.astype(np.uint8)


def _mel(hertz: float) -> float:
    return float(2595 * np.log10(1 + hertz / 700))
