"""The sound of a record as mono samples at any rate. Knows no batch and no spectrogram."""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from penstock.media.audio.clip import open_waveform
from penstock.media.audio.ffmpeg import ffmpeg_samples, is_for_ffmpeg
from penstock.media.audio.waveform import RATE, Samples, Waveform, check_finite, check_header
from penstock.media.content import OpenLink, as_array, content, no_links
from penstock.media.errors import BadMedia
from penstock.media.span import InMemory

AHEAD_SECONDS = 0.2  # decoded beyond the end by FFmpeg: at any rate, as far as the filter of the resampler reaches


def sound_samples(value: object, seconds: float, rate: int = RATE, open_link: OpenLink = no_links) -> Samples:
    """Return a sound as mono samples, the mean of its channels. Decodes only what it returns.

    Args:
        value: File as in :func:`penstock.media.content.content` (WAV, FLAC, MP3, Ogg; M4A, AAC, WebM and videos
            through FFmpeg); a dict with ``array`` and ``sampling_rate``, or a torchcodec ``AudioDecoder``, as Hugging
            Face datasets return them; an array or a tensor [n], [channels, n] or [n, channels], which has the sample
            rate ``rate``. Floats are −1 to 1; integers of 8, 16 or 32 bits are scaled to that.
        seconds: Longest duration to return. The rest is cut off.
        rate: Sample rate of the result.
        open_link: Function that opens paths and URLs.

    Returns:
        Samples, float32, shape (n,), at least one.

    Raises:
        BadMedia: If the value is not a sound, is damaged or truncated, or is empty.
    """
    if value is None:
        raise BadMedia("the record has no sound")
    with _opened(value, seconds, rate, open_link) as wave:
        samples = _resampled(wave, rate, max(1, round(seconds * rate)))
    if not len(samples):
        raise BadMedia(f"too short: {wave.frames} samples at {wave.rate} Hz are less than one at {rate} Hz")
    return samples


class _ArrayWaveform:
    """A waveform over samples in memory."""

    def __init__(self, samples: Samples, rate: int) -> None:
        self._samples = samples
        self.rate = rate
        self.frames = len(samples)

    def read(self, start: int, out: Samples) -> int:
        part = self._samples[start : start + len(out)]
        out[: len(part)] = part
        return len(part)


def _opened(value: object, seconds: float, rate: int, open_link: OpenLink) -> AbstractContextManager[Waveform]:
    if hasattr(value, "get_all_samples"):
        try:
            decoded = value.get_all_samples()
        except RuntimeError as error:
            raise BadMedia(f"torchcodec cannot decode the sound: {error}") from error
        return nullcontext(_of_array(as_array(decoded.data), decoded.sample_rate))
    if isinstance(value, Mapping) and value.get("array") is not None:
        return nullcontext(_of_array(as_array(value["array"]), value.get("sampling_rate") or rate))
    array = as_array(value)
    if array is not None:
        return nullcontext(_of_array(array, rate))
    data = content(value, open_link)
    if is_for_ffmpeg(data):
        return nullcontext(_of_array(*ffmpeg_samples(data, seconds + AHEAD_SECONDS)))
    return open_waveform(InMemory(data), "mean")


def _of_array(array: NDArray[Any] | None, rate: object) -> _ArrayWaveform:
    if array is None or not isinstance(rate, SupportsFloat) or not math.isfinite(float(rate)):
        raise BadMedia(f"the value holds no samples, or no sample rate: {rate!r}")
    hertz = round(float(rate))
    planes = array.squeeze() if array.ndim > 2 else array
    if planes.ndim == 0 or planes.ndim > 2:
        raise BadMedia(f"a sound has 1 or 2 dimensions, not the shape {list(array.shape)}")
    if planes.ndim == 1:
        planes = planes[None]
    elif planes.shape[0] > planes.shape[1]:
        planes = planes.T
    check_header(hertz, *planes.shape)
    samples = _floats(planes).mean(axis=0, dtype=np.float32)
    check_finite(samples)
    return _ArrayWaveform(samples, hertz)


def _floats(values: NDArray[Any]) -> NDArray[np.floating]:
    """Return samples from −1 to 1."""
    if values.dtype.kind == "f":
        return values
    if values.dtype == np.uint8:
        return (values - np.float32(128)) / np.float32(128)
    if values.dtype in (np.int8, np.int16, np.int32):
        return values / np.float32(-float(np.iinfo(values.dtype).min))
    raise BadMedia(f"samples of {values.dtype} cannot be read: floats, and integers of 8, 16 or 32 bits, can")


def _resampled(wave: Waveform, rate: int, most: int) -> Samples:
    """Return the first ``most`` samples at another rate, equal to those of the whole waveform resampled."""
    if wave.rate == rate:
        samples = np.empty(min(wave.frames, most), np.float32)
        return samples[: wave.read(0, samples)]
    import soxr

    from penstock.media.audio.block_filter import REACH_SAMPLES

    reach = REACH_SAMPLES * max(1.0, wave.rate / rate)
    part = np.empty(min(wave.frames, math.ceil(most * wave.rate / rate + reach)), np.float32)
    count = wave.read(0, part)
    resampled: Samples = soxr.resample(part[:count], wave.rate, rate)[:most]
    return resampled
