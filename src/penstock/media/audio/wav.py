"""PCM WAV without a decoder: a small header, then only the requested bytes. Also writes WAVs. Knows no other codec.

Needs no extra until samples are read.
"""

import io
import struct
import wave
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.media.audio.waveform import RATE, Mix, Samples, check_finite, check_header, mix_down
from penstock.media.errors import BadMedia
from penstock.media.span import ByteSpan, read

HEAD_BYTES = 512  # the header of nearly every WAV: one read
MAX_CHUNKS = 1_000  # a file with more is hostile
# A writer that cannot seek back leaves 0 or a very large size (ffmpeg 2³²−1, sox just below 2³¹).
UNKNOWN_SIZE = 0x7FFF_0000
CHUNK = struct.Struct("<4sI")  # name, size
FORM = struct.Struct("<HHIIHH")
MAX_FMT_BYTES = 40  # of the fmt chunk; what follows is not used

PCM = 1
FLOAT = 3
EXTENSIBLE = 0xFFFE
GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")  # after the two bytes that hold the real format tag

PLAIN = struct.Struct("<4sI28s4sI")
PLAIN_HEAD_BYTES = PLAIN.size
PLAIN_FORM = (b"RIFF", b"WAVEfmt " + struct.pack("<IHHIIHH", 16, PCM, 1, RATE, 2 * RATE, 2, 16), b"data")

# (format tag, bits) -> (numpy type, zero level, full scale). 24 bits have no numpy type: they are widened to 32.
ENCODINGS: dict[tuple[int, int], tuple[np.dtype[Any], float, float]] = {
    (PCM, 8): (np.dtype("u1"), 128.0, 2.0**7),
    (PCM, 16): (np.dtype("<i2"), 0.0, 2.0**15),
    (PCM, 24): (np.dtype("<i4"), 0.0, 2.0**31),
    (PCM, 32): (np.dtype("<i4"), 0.0, 2.0**31),
    (FLOAT, 32): (np.dtype("<f4"), 0.0, 1.0),
    (FLOAT, 64): (np.dtype("<f8"), 0.0, 1.0),
}


class Form(NamedTuple):
    """Format of the samples, from the fmt chunk."""

    rate: int
    channels: int
    tag: int
    bits: int

    @property
    def frame_bytes(self) -> int:
        return self.channels * self.bits // 8


class WavLayout(NamedTuple):
    """Location and format of the samples."""

    form: Form
    data_offset: int
    frames: int


@dataclass(frozen=True, slots=True)
class PcmWav:
    """A waveform over the span of a PCM WAV."""

    span: ByteSpan
    layout: WavLayout
    mix: Mix

    @property
    def rate(self) -> int:
        return self.layout.form.rate

    @property
    def frames(self) -> int:
        return self.layout.frames

    def read(self, start: int, out: Samples) -> int:
        layout = self.layout
        form = layout.form
        count = max(0, min(len(out), layout.frames - start))
        raw = np.empty(count * form.frame_bytes, np.uint8)
        self.span.readinto(raw.data, layout.data_offset + start * form.frame_bytes)
        dtype, zero, scale = ENCODINGS[form.tag, form.bits]
        samples = _widen_24(raw) if form.bits == 24 else raw.view(dtype)
        frames = samples.reshape(count, form.channels)
        row = out[:count]
        if form.tag == FLOAT:
            with np.errstate(over="ignore", invalid="ignore"):  # a float64 too large for float32 becomes infinity
                mix_down(frames, self.mix, row)
            check_finite(row)
        elif form.bits == 16 and (self.mix == "first" or form.channels == 1):
            convert_16(frames[:, 0], row)
        else:
            mix_down(frames, self.mix, row)
            if zero:
                row -= np.float32(zero)
            row *= 1.0 / scale
        return count


def plain_frames(head: tuple[bytes, int, bytes, bytes, int], size: int) -> int:
    """Count the samples of the most common kind of WAV: 16-bit mono at 16 kHz with a header of 44 bytes.

    Args:
        head: Header, unpacked by ``PLAIN``.
        size: Size of the file in bytes.

    Returns:
        Number of samples; 0 for any other file, which may still be a valid WAV.
    """
    riff, riff_size, form, data, data_size = head
    fits = riff_size == size - 8 and data_size == size - PLAIN_HEAD_BYTES and data_size % 2 == 0
    return data_size // 2 if fits and (riff, form, data) == PLAIN_FORM else 0


def convert_16(samples: NDArray[np.integer], out: Samples) -> None:
    """Convert 16-bit samples of any shape to floats."""
    if samples.flags.c_contiguous:
        from penstock.media.audio.miniaudio import to_floats  # an extra, which parsing headers does not need

        to_floats(samples, out, samples.size)
    else:
        np.multiply(samples, np.float32(2.0**-15), out=out)


def parse_wav(span: ByteSpan) -> WavLayout | None:
    """Return the layout of a PCM WAV, or None for any other file, which needs a decoder.

    Raises:
        BadMedia: If it is a WAV whose header is damaged or truncated.
    """
    head = read(span, 0, HEAD_BYTES)
    if head[:4] != b"RIFF" or head[8:12] != b"WAVE":
        return None
    riff_size = int.from_bytes(head[4:8], "little")
    form: bytearray | None = None
    at = 12  # in the head
    base = 0  # offset of the head in the span
    for _ in range(MAX_CHUNKS):
        if at + 8 > len(head):
            base += at
            at = 0
            head = read(span, base, 8 + MAX_FMT_BYTES)
            if len(head) < 8:
                raise BadMedia(f"the WAV ends at byte {span.size}, before its data chunk: it is truncated")
        name, size = CHUNK.unpack_from(head, at)
        at += 8
        if name == b"fmt ":
            wanted = min(size, MAX_FMT_BYTES)
            form = head[at : at + wanted] if at + wanted <= len(head) else read(span, base + at, wanted)
        elif name == b"data":
            if form is None:
                raise BadMedia("the WAV has its data chunk before any fmt chunk")
            return _layout(bytes(form), base + at, _data_size(span.size, riff_size, base + at, size))
        at += size + size % 2
    raise BadMedia(f"the WAV has no data chunk among its first {MAX_CHUNKS} chunks")


def _data_size(file_size: int, riff_size: int, offset: int, size: int) -> int:
    there = file_size - offset
    closed = riff_size + 8 >= file_size and riff_size < UNKNOWN_SIZE  # the writer went back to fill in the sizes
    if size >= UNKNOWN_SIZE or (size == 0 and not closed):
        return min(size, there) if size else there
    if size > there:
        raise BadMedia(f"the WAV is truncated: its data chunk should have {size} bytes and has {there}")
    return size


def _layout(fmt: bytes, offset: int, size: int) -> WavLayout | None:
    form = _form(fmt)
    if form is None:
        return None
    frames = size // form.frame_bytes if form.channels else 0
    check_header(form.rate, form.channels, frames)
    return WavLayout(form, offset, frames)


@lru_cache(maxsize=256)  # nearly all clips of a dataset have the same format
def _form(fmt: bytes) -> Form | None:
    if len(fmt) < 16:
        raise BadMedia(f"the WAV's fmt chunk has {len(fmt)} bytes; it needs at least 16")
    tag, channels, rate, _, frame_bytes, bits = FORM.unpack_from(fmt)
    if tag == EXTENSIBLE and len(fmt) == 40 and fmt[26:] == GUID_TAIL:
        tag = int.from_bytes(fmt[24:26], "little")
    if (tag, bits) not in ENCODINGS or frame_bytes != channels * bits // 8:
        return None
    return Form(rate, channels, tag, bits)


def _widen_24(raw: NDArray[np.uint8]) -> NDArray[np.int32]:
    wide = np.zeros((len(raw) // 3, 4), np.uint8)
    wide[:, 1:] = raw.reshape(-1, 3)
    return wide.reshape(-1).view("<i4")


def wav_bytes(samples: Samples, rate: int) -> bytes:
    """Return the bytes of a WAV file.

    Samples are rounded to 16 bit and clipped at full scale. Samples that were decoded from 16 bit are stored exactly.

    Args:
        samples: Mono samples; full scale is 1.0.
        rate: Sample rate in Hz.
    """
    pcm = np.clip(np.rint(samples * 2**15), -(2**15), 2**15 - 1).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(pcm.tobytes())
    return file.getvalue()
