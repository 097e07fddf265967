"""A clip of speech out of a file's bytes: mono, 16 kHz, one crop and nothing else decoded, or whole. Knows no batch."""

import numpy as np

from penstock.media.errors import BadMedia
from penstock.media.resample import read_resampled, resampled_length
from penstock.media.sndfile import SndfileWaveform
from penstock.media.span import Span
from penstock.media.wav import PcmWav, parse_wav
from penstock.media.waveform import RATE, Mix, Samples, Waveform

EXTENSIONS = ("wav", "flac", "mp3", "ogg", "opus")  # of files that are taken for audio
LONGEST = 3600 * RATE  # samples that are decoded whole: a longer clip is no utterance, or its header is damaged


def crop_start(draw: int, length: int, size: int) -> int:
    """Where a crop of ``size`` starts: uniform over 0 … length − size, both included, for a uniform 64-bit draw."""
    return (draw * (max(0, length - size) + 1)) >> 64


def read_crop(span: Span, draw: int, out: Samples, mix: Mix = "first") -> int:
    """Fill ``out`` with a crop of its length, zeros after a shorter clip; returns how many samples are the clip's.

    The same bytes and draw give the same row, whoever asks. Bytes that are no good raise :class:`BadMedia`.
    """
    layout = parse_wav(span)
    if layout is not None:
        return _fill(PcmWav(span, layout, mix), draw, out)
    with SndfileWaveform(span, mix) as wave:
        return _fill(wave, draw, out)


def read_whole(span: Span, mix: Mix = "first") -> Samples:
    """All of the clip, an hour at most."""
    layout = parse_wav(span)
    if layout is not None:
        return _whole(PcmWav(span, layout, mix))
    with SndfileWaveform(span, mix) as wave:
        return _whole(wave)


def clip_length(span: Span) -> int:
    """The clip's length in 16 kHz samples, from its header."""
    layout = parse_wav(span)
    if layout is not None:
        return resampled_length(layout.frames, layout.form.rate)
    with SndfileWaveform(span, "first") as wave:
        return resampled_length(wave.frames, wave.rate)


def _fill(wave: Waveform, draw: int, out: Samples) -> int:
    length = resampled_length(wave.frames, wave.rate)
    if not length:
        raise BadMedia(f"{wave.frames} samples at {wave.rate} Hz are none at {RATE}")
    start = crop_start(draw, length, len(out))
    valid = read_resampled(wave, start, out)
    out[valid:] = 0.0
    return valid


def _whole(wave: Waveform) -> Samples:
    length = resampled_length(wave.frames, wave.rate)
    if length > LONGEST:
        raise BadMedia(f"the clip lasts {length / RATE:,.0f} s; up to {LONGEST // RATE:,} s are read whole")
    out = np.empty(length, np.float32)
    return out[: read_resampled(wave, 0, out)]
