"""Sound file -> speech clip: mono, 16 kHz, whole or only a crop. Knows no batch."""

from contextlib import AbstractContextManager, nullcontext

import numpy as np

from penstock.media.audio.flac_blocks import check_flac
from penstock.media.audio.ogg import check_ogg
from penstock.media.audio.resample import read_resampled, resampled_length
from penstock.media.audio.wav import PcmWav, parse_wav
from penstock.media.audio.waveform import RATE, Mix, Samples, Waveform
from penstock.media.errors import BadMedia
from penstock.media.span import ByteSpan, read_all
from penstock.readers.mp3frames import after_tag, xing_at

EXTENSIONS = ("wav", "flac", "mp3", "ogg", "opus", "original")  # original: any of these, as Lhotse Shar may name it
MAGIC = (b"RIFF", b"RF64", b"fLaC", b"OggS", b"ID3")
_SLACK_BYTES = 256  # bytes that an MP3 may lack: a trailing tag that was counted and then stripped
MAX_CLIP_SAMPLES = 3600 * RATE  # a longer clip is not an utterance, or its header is damaged


def crop_start(draw: int, length: int, size: int) -> int:
    """Return the start of a crop, uniform over 0 … length − size, both included.

    Args:
        draw: 64 uniform random bits.
        length: Length of the clip in samples.
        size: Length of the crop in samples.
    """
    return (draw * (max(0, length - size) + 1)) >> 64


def read_crop(span: ByteSpan, draw: int, out: Samples, mix: Mix = "first") -> int:
    """Fill ``out`` with a crop of its length, and zeros after a shorter clip.

    The result depends on the bytes and the draw alone.

    Args:
        span: Content of the file.
        draw: 64 uniform random bits, which choose the crop.
        out: Array to fill.
        mix: Channel to use: the first, or the mean of all.

    Returns:
        Number of samples of the clip, without the zeros.

    Raises:
        BadMedia: If the bytes cannot be decoded.
    """
    with open_waveform(span, mix) as wave:
        return _fill(wave, draw, out)


def read_whole(span: ByteSpan, mix: Mix = "first", segment: tuple[float, float] | None = None) -> Samples:
    """Return the whole clip, at most an hour, or a segment of it.

    Args:
        span: Content of the file.
        mix: Channel to use: the first, or the mean of all.
        segment: Start and duration of the segment, in seconds. One that ends after the clip is shorter.

    Raises:
        BadMedia: If the bytes cannot be decoded, the clip is longer, or the segment is not in it.
    """
    with open_waveform(span, mix) as wave:
        return _whole(wave) if segment is None else _segment(wave, *segment)


def open_waveform(span: ByteSpan, mix: Mix) -> AbstractContextManager[Waveform]:
    """Open the waveform of a file. The decoder is chosen by the first bytes, not by the name."""
    layout = parse_wav(span)
    if layout is not None:
        return nullcontext(PcmWav(span, layout, mix))
    data = read_all(span)
    _check_magic(data)
    check_complete(data)
    if data.startswith(b"fLaC"):
        from penstock.media.audio.flac import FlacWaveform

        return nullcontext(FlacWaveform(data, mix))
    from penstock.media.audio.sndfile import SndfileWaveform

    return SndfileWaveform(data, mix)


def check_complete(data: bytes) -> None:
    """Raise :class:`BadMedia` if a compressed file is truncated, or an Ogg file damaged. Decodes nothing.

    A crop from the intact first half of a truncated file would decode without an error. What is cheap to check is
    checked: FLAC numbers its frames, Ogg its pages, the Xing header of an MP3 counts the bytes. An MP3 without that
    header has no length and is accepted.
    """
    if data.startswith(b"fLaC"):
        check_flac(data)
    elif data.startswith(b"OggS"):
        check_ogg(data)
    else:
        _check_mp3(data)


def _check_mp3(data: bytes) -> None:
    """Raise :class:`BadMedia` if the Xing header counts more bytes than there are."""
    start = after_tag(data)
    at = xing_at(data, start)
    flags = int.from_bytes(data[at + 4 : at + 8], "big") if at >= 0 else 0
    if flags & 2:
        field = at + 8 + (4 if flags & 1 else 0)
        counted = int.from_bytes(data[field : field + 4], "big")
        if start + counted > len(data) + _SLACK_BYTES:
            raise BadMedia(f"the MP3 is truncated: its header counts {counted} bytes, it has {len(data) - start}")


def _check_magic(data: bytes) -> None:
    if not data:
        raise BadMedia("the file is empty")
    mpeg = len(data) > 1 and data[0] == 0xFF and data[1] & 0xE0 == 0xE0
    if not (mpeg or data.startswith(MAGIC)):
        raise BadMedia(f"this is not WAV, FLAC, MP3 or Ogg audio: {len(data):,} bytes of something else")


def _fill(wave: Waveform, draw: int, out: Samples) -> int:
    length = resampled_length(wave.frames, wave.rate)
    if not length:
        raise BadMedia(f"too short: {wave.frames} samples at {wave.rate} Hz are less than one at {RATE} Hz")
    start = crop_start(draw, length, len(out))
    valid = read_resampled(wave, start, out)
    out[valid:] = 0.0
    return valid


def _whole(wave: Waveform) -> Samples:
    length = resampled_length(wave.frames, wave.rate)
    if length > MAX_CLIP_SAMPLES:
        raise BadMedia(f"the clip lasts {length / RATE:,.0f} s; up to {MAX_CLIP_SAMPLES // RATE:,} s are read whole")
    out = np.empty(length, np.float32)
    return out[: read_resampled(wave, 0, out)]


def _segment(wave: Waveform, start: float, seconds: float) -> Samples:
    first = round(start * RATE)
    size = min(round(seconds * RATE), resampled_length(wave.frames, wave.rate) - first, MAX_CLIP_SAMPLES)
    if size < 1:
        raise BadMedia(
            f"the segment of {seconds:g} s at {start:g} s is not in the clip of {wave.frames / wave.rate:g} s"
        )
    out = np.empty(size, np.float32)
    return out[: read_resampled(wave, first, out)]
