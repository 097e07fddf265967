"""W2V-BERT's input features for a batch of 16 kHz clips, equal to those of transformers' SeamlessM4TFeatureExtractor.

    pad 160 both sides -> frames of 400 every 160 -> no DC, pre-emphasis, Povey window -> |rfft 512|² -> 80 Kaldi mels
    -> log -> per clip and bin: zero mean, unit variance -> two frames per row

Knows nothing of files. All work is done inside torch, without the GIL, on the calling thread only.
"""

import math
import threading
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from penstock.runtime.torch_threads import one_torch_thread

PAD_SAMPLES = 160  # on both sides of a clip
FRAME_SAMPLES = 400
HOP_SAMPLES = 160  # between the starts of two frames
FFT_SAMPLES = 512
MELS = 80
FRAMES_PER_ROW = 2
PREEMPHASIS = 0.97
# Kaldi uses 16-bit integers (2¹⁵) and an energy floor of 2⁻²³. In units of that floor silence is exactly log 1 = 0.
ENERGY_IN_FLOORS = 2.0 ** (2 * 15 + 23)
MEL_GROUPS = (0, 32, 48, 64, 80)  # a filter has few of the 257 bins: by groups, most zeros are never multiplied
CLIPS_AT_ONCE = 4  # their energies fit into the CPU cache
MAX_KEPT_SAMPLES = 60 * 16_000  # of a clip; buffers for longer clips, over 60 MB, are not kept
MIN_SAMPLES = FRAME_SAMPLES + HOP_SAMPLES - 2 * PAD_SAMPLES  # two frames, for a variance


def feature_rows(samples: int) -> int:
    """Return the number of feature rows of a clip: one per 320 samples, which is one codec token."""
    frames = (samples + 2 * PAD_SAMPLES - FRAME_SAMPLES) // HOP_SAMPLES + 1
    return -(-frames // FRAMES_PER_ROW)


def feature_shape(clips: int, samples: int) -> tuple[int, int, int, int]:
    """Return the shape of the features of a batch."""
    return clips, 1, feature_rows(samples), FRAMES_PER_ROW * MELS


@torch.no_grad()
def w2v_bert_features(wav: Tensor, dtype: torch.dtype = torch.float32, out: Tensor | None = None) -> Tensor:
    """Return the features of a batch of clips. Silence gives zeros.

    Args:
        wav: Clips, float32, shape (B, n).
        dtype: Type to compute in, float32 or float64.
        out: Tensor to fill; a new one by default.

    Returns:
        Features, float32, shape (B, 1, feature_rows(n), 160).

    Raises:
        ValueError: If the clips are too short.

    Largest difference to the extractor, on any CPU:

    - float32: mel energies differ by at most 1e-6 of the largest energy of the frame. For 6 s of speech recorded at
      16 kHz or more, features differ by at most 5e-3, and by 1e-5 in the mean. A crop of a second, and about one value
      in 10⁷ whose bin is nearly empty by chance, may differ by twice that. Speech recorded at a lower rate has only
      rounding noise in the bins above half that rate: there features may differ by 0.2.
    - float64: for speech recorded at any rate, features within 2e-5. This takes twice the time.
    """
    batch, samples = wav.shape
    if samples < MIN_SAMPLES:
        raise ValueError(f"features need clips of {MIN_SAMPLES} samples or more, not {samples}")
    features = _empty(*feature_shape(batch, samples)) if out is None else out
    with one_torch_thread():
        scratch = _scratch(samples, dtype, min(batch, CLIPS_AT_ONCE))
        rows = features.view(batch, FRAMES_PER_ROW * feature_rows(samples), MELS)
        frames = len(scratch.windowed)
        for few in range(0, batch, CLIPS_AT_ONCE):
            # Energies clip by clip: each operation finds its input in the CPU cache. They are small: several at once.
            clips = wav[few : few + CLIPS_AT_ONCE]
            for clip, mel_groups in zip(clips, scratch.mel_groups, strict=False):
                _energies(clip, scratch, mel_groups)
            _normalise(scratch.energies[: len(clips)], scratch, out=rows[few : few + CLIPS_AT_ONCE, :frames])
        rows[:, frames:] = 0.0  # an odd number of frames is padded with a silent one
    return features


def _empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return an uninitialised CPU tensor, whatever device and type a trainer has set as default."""
    return torch.empty(shape, dtype=dtype, device="cpu")


@dataclass(frozen=True, slots=True)
class _MelGroup:
    """Neighbouring mel filters, cut to the columns of the spectrum in which they are not zero."""

    mels: slice
    columns: slice
    weights: Tensor


class _Scratch:
    """Buffers for one clip at a time. Float64 up to the window, because frames may be nearly all DC.

    Their slices are made once, here: with several threads, each call of torch may have to wait for the GIL.
    """

    def __init__(self, samples: int, dtype: torch.dtype, clips: int) -> None:
        padded = _empty(samples + 2 * PAD_SAMPLES, dtype=torch.float64).zero_()
        emphasised = torch.zeros_like(padded)
        self.clip = padded[PAD_SAMPLES:-PAD_SAMPLES]
        self.here = padded[1:]
        self.before = padded[:-1]
        self.emphasised = emphasised[1:]
        self.frames, self.emphasised_frames = (
            each.unfold(0, FRAME_SAMPLES, HOP_SAMPLES) for each in (padded, emphasised)
        )
        self.windowed = _empty(*self.frames.shape, dtype=torch.float64)
        self.spectrum_input = _empty(len(self.frames), FFT_SAMPLES, dtype=dtype).zero_()
        self.spectrum_frames = self.spectrum_input[:, :FRAME_SAMPLES]
        self.energies = _empty(clips, len(self.frames), MELS, dtype=dtype)
        self.mel_groups = [[(group, clip[:, group.mels]) for group in _mel_groups(dtype)] for clip in self.energies]
        self.squares = torch.empty_like(self.energies)
        self.window = torch.from_numpy(np.hanning(FRAME_SAMPLES) ** 0.85)
        self.least_variance = _empty(MELS, dtype=dtype).fill_(1e-7)


_of_this_thread = threading.local()


def _scratch(samples: int, dtype: torch.dtype, clips: int) -> _Scratch:
    """Return this thread's buffers for clips of one length. They are reused; padding stays zero.

    Buffers for long clips are not kept.
    """
    what = (samples, dtype, clips)
    kept: tuple[Any, _Scratch] | None = getattr(_of_this_thread, "scratch", None)
    if kept is None or kept[0] != what:
        kept = None
        _of_this_thread.scratch = None  # frees the old buffers before new ones are made
        with torch.inference_mode(False):  # tensors made in inference mode cannot be used outside it
            kept = (what, _Scratch(*what))
        if samples <= MAX_KEPT_SAMPLES:
            _of_this_thread.scratch = kept
    return kept[1]


def _energies(clip: Tensor, scratch: _Scratch, mel_groups: list[tuple[_MelGroup, Tensor]]) -> None:
    """Compute energies [frames, 80] in units of the floor, by groups of filters."""
    scratch.clip.copy_(clip)
    # Pre-emphasis commutes with framing except for a frame's first sample, which the window multiplies by 0.
    torch.sub(scratch.here, scratch.before, alpha=PREEMPHASIS, out=scratch.emphasised)
    dc = scratch.frames.mean(1, keepdim=True)
    torch.sub(scratch.emphasised_frames, dc, alpha=1 - PREEMPHASIS, out=scratch.windowed)
    scratch.windowed.mul_(scratch.window)
    scratch.spectrum_frames.copy_(scratch.windowed)
    spectrum = torch.view_as_real(torch.fft.rfft(scratch.spectrum_input)).flatten(1)  # re, im, re, im …
    spectrum.square_()
    for group, energies in mel_groups:
        torch.mm(spectrum[:, group.columns], group.weights, out=energies)


def _normalise(energies: Tensor, scratch: _Scratch, out: Tensor) -> None:
    """Take the log of energies [clips, frames, 80], and give each clip and bin zero mean and unit variance."""
    log_mel = energies.clamp_(min=1.0).log_()
    log_mel.sub_(log_mel.mean(1, keepdim=True))
    squares = torch.mul(log_mel, log_mel, out=scratch.squares[: len(log_mel)]).sum(1, keepdim=True)
    variance = torch.add(scratch.least_variance, squares, alpha=1 / (log_mel.shape[1] - 1))
    torch.div(log_mel, variance.sqrt_(), out=out)


@cache
def _mel_groups(dtype: torch.dtype) -> tuple[_MelGroup, ...]:
    filters = np.repeat(_mel_filters() * ENERGY_IN_FLOORS, 2, axis=0)  # the same weight for re² and im²
    groups = []
    for mels in map(slice, MEL_GROUPS, MEL_GROUPS[1:]):
        touched = np.flatnonzero(filters[:, mels].any(axis=1))
        columns = slice(int(touched[0]), int(touched[-1]) + 1)
        groups.append(_MelGroup(mels, columns, torch.from_numpy(filters[columns, mels].copy()).to(dtype)))
    return tuple(groups)


def _mel_filters() -> NDArray[np.float64]:
    """Return Kaldi's triangular mel filters from 20 to 8000 Hz, shape (257, 80)."""
    edges = np.linspace(_mel(20.0), _mel(8_000.0), MELS + 2)
    bins = np.array([_mel(k * 16_000 / FFT_SAMPLES) for k in range(FFT_SAMPLES // 2 + 1)])[:, None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    filters: NDArray[np.float64] = np.maximum(0.0, np.minimum(rising, falling))
    return filters


def _mel(hertz: float) -> float:
    return 1127.0 * math.log(1.0 + hertz / 700.0)
