"""A clip of speech out of a file's bytes: mono, 16 kHz, one crop and nothing else decoded, or whole. Knows no batch."""

from contextlib import AbstractContextManager, nullcontext

import numpy as np

from penstock.media.errors import BadMedia
from penstock.media.resample import read_resampled, resampled_length
from penstock.media.span import Span, read_all
from penstock.media.truncation import check_complete
from penstock.media.wav import PcmWav, parse_wav
from penstock.media.waveform import RATE, Mix, Samples, Waveform

EXTENSIONS = ("wav", "flac", "mp3", "ogg", "opus")  # of files that are taken for audio
MAGIC = (b"RIFF", b"RF64", b"fLaC", b"OggS", b"ID3")
LONGEST = 3600 * RATE  # samples that are decoded whole: a longer clip is no utterance, or its header is damaged


def crop_start(draw: int, length: int, size: int) -> int:
    """Where a crop of ``size`` starts: uniform over 0 … length − size, both included, for a uniform 64-bit draw."""
    return (draw * (max(0, length - size) + 1)) >> 64


def read_crop(span: Span, draw: int, out: Samples, mix: Mix = "first") -> int:
    """Fill ``out`` with a crop of its length, zeros after a shorter clip; returns how many samples are the clip's.

    The same bytes and draw give the same row, whoever asks. Bytes that are no good raise :class:`BadMedia`.
    """
    with opened(span, mix) as wave:
        return _fill(wave, draw, out)


def read_whole(span: Span, mix: Mix = "first") -> Samples:
    """All of the clip, an hour at most."""
    with opened(span, mix) as wave:
        return _whole(wave)


def clip_length(span: Span) -> int:
    """The clip's length in 16 kHz samples, from its header."""
    with opened(span, "first") as wave:
        return resampled_length(wave.frames, wave.rate)


def opened(span: Span, mix: Mix) -> AbstractContextManager[Waveform]:
    """The waveform of a file, by what its bytes say that it is."""
    layout = parse_wav(span)
    if layout is not None:
        return nullcontext(PcmWav(span, layout, mix))
    data = read_all(span)
    _check_magic(data)
    check_complete(data)
    if data.startswith(b"fLaC"):
        from penstock.media.flacwave import FlacWaveform

        return nullcontext(FlacWaveform(data, mix))
    from penstock.media.sndfile import SndfileWaveform

    return SndfileWaveform(data, mix)


def _check_magic(data: bytes) -> None:
    if not data:
        raise BadMedia("the file is empty")
    mpeg = len(data) > 1 and data[0] == 0xFF and data[1] & 0xE0 == 0xE0
    if not (mpeg or data.startswith(MAGIC)):
        raise BadMedia(f"this is no WAV, FLAC, MP3 or Ogg audio: it starts with {data[:8]!r}")


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
