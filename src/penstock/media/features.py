"""W2V-BERT's input features for a batch of 16 kHz clips, as transformers' SeamlessM4TFeatureExtractor gives them.

    pad 160 both sides -> frames of 400 every 160 -> no DC, pre-emphasis, Povey window -> |rfft 512|² -> 80 Kaldi mels
    -> log -> per clip and bin: zero mean, unit variance -> two frames a row

Knows nothing of files. Everything runs inside torch, without the GIL, on the calling thread alone.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from penstock.media.torch_threads import one_torch_thread

PAD, FRAME, HOP, FFT, MELS, STRIDE = 160, 400, 160, 512, 80, 2
PREEMPHASIS = 0.97
# Kaldi thinks in 16-bit integers (2¹⁵) and floors energy at 2⁻²³. In units of that floor silence is exactly log 1 = 0.
ENERGY_IN_FLOORS = 2.0 ** (2 * 15 + 23)
MELS_AT_ONCE = 16  # a filter spans few of the 257 bins: by groups most zeros are never multiplied
SHORTEST = FRAME + HOP - 2 * PAD  # two frames: a variance needs them


def feature_rows(samples: int) -> int:
    """How many rows of 160 a clip gives: one for 320 samples, which is one codec token."""
    frames = (samples + 2 * PAD - FRAME) // HOP + 1
    return -(-frames // STRIDE)


@torch.no_grad()
def w2v_bert_features(wav: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """float32 [B, n] to float32 [B, 1, feature_rows(n), 160]; silence gives zeros.

    On speech within 2e-3 of the extractor (1e-5 in the mean), with ``dtype=torch.float64`` within 2e-5.
    """
    batch, samples = wav.shape
    if samples < SHORTEST:
        raise ValueError(f"features need clips of {SHORTEST} samples or more, not {samples}")
    features = torch.empty(batch, STRIDE * feature_rows(samples), MELS)
    with one_torch_thread():
        scratch = _Scratch(samples, dtype)
        for clip, rows in zip(wav, features, strict=True):  # one by one: each step finds its input in the CPU's cache
            log_mel = _log_mel(clip, scratch)
            _normalise(log_mel, out=rows[: len(log_mel)])
            rows[len(log_mel) :] = 0.0  # an odd last frame gets a silent partner
    return features.view(batch, 1, -1, STRIDE * MELS)


class _Scratch:
    """Buffers that every clip of one call is worked in. Up to the window in float64: frames may be nearly all DC."""

    def __init__(self, samples: int, dtype: torch.dtype) -> None:
        self.padded = torch.zeros(samples + 2 * PAD, dtype=torch.float64)
        self.emphasised = torch.zeros_like(self.padded)
        self.frames = self.padded.unfold(0, FRAME, HOP)
        self.emphasised_frames = self.emphasised.unfold(0, FRAME, HOP)
        self.windowed = torch.empty(self.frames.shape, dtype=torch.float64)
        self.spectrum_input = torch.zeros(len(self.frames), FFT, dtype=dtype)
        self.energies = torch.empty(len(self.frames), MELS, dtype=dtype)
        self.window = torch.from_numpy(np.hanning(FRAME) ** 0.85)
        self.mel_groups = _mel_groups(dtype)


def _log_mel(clip: Tensor, scratch: _Scratch) -> Tensor:
    """[frames, 80], the log of energies in units of the floor."""
    padded = scratch.padded
    padded[PAD:-PAD] = clip
    # Pre-emphasis commutes with framing except for a frame's first sample, which the window multiplies by 0.
    torch.sub(padded[1:], padded[:-1], alpha=PREEMPHASIS, out=scratch.emphasised[1:])
    dc = scratch.frames.mean(1, keepdim=True)
    torch.sub(scratch.emphasised_frames, dc, alpha=1 - PREEMPHASIS, out=scratch.windowed)
    scratch.windowed *= scratch.window
    scratch.spectrum_input[:, :FRAME] = scratch.windowed
    spectrum = torch.view_as_real(torch.fft.rfft(scratch.spectrum_input)).flatten(1)  # re, im, re, im …
    spectrum *= spectrum
    for group in scratch.mel_groups:
        torch.mm(spectrum[:, group.columns], group.weights, out=scratch.energies[:, group.mels])
    return scratch.energies.clamp_(min=1.0).log_()


def _normalise(log_mel: Tensor, out: Tensor) -> None:
    log_mel -= log_mel.mean(0)
    variance = (log_mel * log_mel).sum(0) / (len(log_mel) - 1)
    torch.div(log_mel, (variance + 1e-7).sqrt_(), out=out)


@dataclass(frozen=True, slots=True)
class _MelGroup:
    """Neighbouring mel filters, cut to the spectrum's columns that they touch."""

    mels: slice
    columns: slice
    weights: Tensor


@cache
def _mel_groups(dtype: torch.dtype) -> tuple[_MelGroup, ...]:
    filters = np.repeat(_mel_filters() * ENERGY_IN_FLOORS, 2, axis=0)  # the same weight for re² and im²
    groups = []
    for first in range(0, MELS, MELS_AT_ONCE):
        mels = slice(first, first + MELS_AT_ONCE)
        touched = np.flatnonzero(filters[:, mels].any(axis=1))
        columns = slice(int(touched[0]), int(touched[-1]) + 1)
        groups.append(_MelGroup(mels, columns, torch.from_numpy(filters[columns, mels].copy()).to(dtype)))
    return tuple(groups)


def _mel_filters() -> NDArray[np.float64]:
    """Kaldi's triangles, straight in mel space, from 20 to 8000 Hz: [257, 80]."""
    edges = np.linspace(_mel(20.0), _mel(8_000.0), MELS + 2)
    bins = np.array([_mel(k * 16_000 / FFT) for k in range(FFT // 2 + 1)])[:, None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    filters: NDArray[np.float64] = np.maximum(0.0, np.minimum(rising, falling))
    return filters


def _mel(hertz: float) -> float:
    return 1127.0 * math.log(1.0 + hertz / 700.0)
