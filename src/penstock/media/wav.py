"""PCM WAV without a decoder: a small header, then only the bytes asked for. Knows no other codec a WAV may hold."""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.media.errors import BadMedia
from penstock.media.span import Span, read
from penstock.media.waveform import Mix, Samples, check_finite, check_header, mix_down

HEAD = 512  # holds the header of nearly every WAV: one read
MAX_CHUNKS = 1_000  # a walk over more is a hostile file, not metadata
# A writer that could not seek back leaves 0 or the largest size it dares to claim (ffmpeg 2³²−1, sox just below 2³¹).
STREAMED = 0x7FFF_0000
CHUNK = struct.Struct("<4sI")  # its name, its size
FORM = struct.Struct("<HHIIHH")
FMT = 40  # bytes of the longest fmt chunk that says anything

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")  # after the two bytes that hold the real format tag

# (format tag, bits) -> (numpy type, zero level, full scale). 24 bits have no numpy type: widened to 32 when read.
ENCODINGS: dict[tuple[int, int], tuple[np.dtype[Any], float, float]] = {
    (PCM, 8): (np.dtype("u1"), 128.0, 2.0**7),
    (PCM, 16): (np.dtype("<i2"), 0.0, 2.0**15),
    (PCM, 24): (np.dtype("<i4"), 0.0, 2.0**31),
    (PCM, 32): (np.dtype("<i4"), 0.0, 2.0**31),
    (FLOAT, 32): (np.dtype("<f4"), 0.0, 1.0),
    (FLOAT, 64): (np.dtype("<f8"), 0.0, 1.0),
}


@dataclass(frozen=True, slots=True)
class WavLayout:
    """Where the samples are and how they are written."""

    rate: int
    channels: int
    tag: int
    bits: int
    data_offset: int
    frames: int

    @property
    def frame_bytes(self) -> int:
        return self.channels * self.bits // 8


@dataclass(frozen=True, slots=True)
class PcmWav:
    """A waveform over the span of a PCM WAV."""

    span: Span
    layout: WavLayout
    mix: Mix

    @property
    def rate(self) -> int:
        return self.layout.rate

    @property
    def frames(self) -> int:
        return self.layout.frames

    def read(self, start: int, out: Samples) -> int:
        layout, size = self.layout, self.layout.frame_bytes
        count = max(0, min(len(out), layout.frames - start))
        raw = np.empty(count * size, np.uint8)
        self.span.readinto([raw.data], layout.data_offset + start * size)
        dtype, zero, scale = ENCODINGS[layout.tag, layout.bits]
        samples = _widen_24(raw) if layout.bits == 24 else raw.view(dtype)
        frames, row = samples.reshape(count, layout.channels), out[:count]
        if layout.tag == FLOAT:
            with np.errstate(over="ignore", invalid="ignore"):  # a float64 too large for float32 is no finite number
                mix_down(frames, self.mix, row)
            check_finite(row)
        elif layout.bits == 16 and (self.mix == "first" or layout.channels == 1):
            np.multiply(frames[:, 0], np.float32(1.0 / scale), out=row)  # one pass: most speech is this
        else:
            mix_down(frames, self.mix, row)
            if zero:
                row -= np.float32(zero)
            row *= 1.0 / scale
        return count


def parse_wav(span: Span) -> WavLayout | None:
    """The layout of a PCM WAV; None for anything else, which is then a decoder's business."""
    head = read(span, 0, HEAD)
    if head[:4] != b"RIFF" or head[8:12] != b"WAVE":
        return None
    riff_size = int.from_bytes(head[4:8], "little")
    form: bytearray | None = None
    at, base = 12, 0  # in the head; where the head is in the span
    for _ in range(MAX_CHUNKS):
        if at + 8 > len(head):
            head, at, base = read(span, base + at, 8 + FMT), 0, base + at
            if len(head) < 8:
                raise BadMedia(f"the WAV ends at byte {span.size}, before its data chunk: it is truncated")
        name, size = CHUNK.unpack_from(head, at)
        at += 8
        if name == b"fmt ":
            wanted = min(size, FMT)
            form = head[at : at + wanted] if at + wanted <= len(head) else read(span, base + at, wanted)
        elif name == b"data":
            if form is None:
                raise BadMedia("the WAV has its data chunk before any fmt chunk")
            return _layout(form, base + at, _data_size(span.size, riff_size, base + at, size))
        at += size + size % 2
    raise BadMedia(f"the WAV has no data chunk among its first {MAX_CHUNKS} chunks")


def _data_size(file_size: int, riff_size: int, offset: int, size: int) -> int:
    there = file_size - offset
    closed = riff_size + 8 >= file_size and riff_size < STREAMED  # the writer came back to fill the sizes in
    if size >= STREAMED or (size == 0 and not closed):
        return min(size, there) if size else there
    if size > there:
        raise BadMedia(f"the WAV is truncated: its data chunk has {size} bytes and {there} of them are there")
    return size


def _layout(form: bytearray, offset: int, size: int) -> WavLayout | None:
    if len(form) < 16:
        raise BadMedia(f"the WAV's fmt chunk has {len(form)} bytes; 16 are the least")
    tag, channels, rate, _, frame_bytes, bits = FORM.unpack_from(form)
    if tag == EXTENSIBLE and len(form) == 40 and form[26:] == GUID_TAIL:
        tag = int.from_bytes(form[24:26], "little")
    if (tag, bits) not in ENCODINGS or frame_bytes != channels * bits // 8:
        return None
    frames = size // frame_bytes if frame_bytes else 0
    check_header(rate, channels, frames)
    return WavLayout(rate, channels, tag, bits, offset, frames)


def _widen_24(raw: NDArray[np.uint8]) -> NDArray[np.int32]:
    wide = np.zeros((len(raw) // 3, 4), np.uint8)
    wide[:, 1:] = raw.reshape(-1, 3)
    return wide.reshape(-1).view("<i4")
