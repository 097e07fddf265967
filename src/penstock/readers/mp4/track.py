"""The video track of an MP4 file: place, time and kind of every frame, from its ``moov`` box. Decodes nothing.

Frames are in decoding order, which is the order of their bytes. With B-frames they are shown in another order, which
``times`` gives.
"""

import struct
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from penstock.plan.draws import Ints
from penstock.readers.mp4.boxes import Box, NoBox, box_at, boxes, find, need

_ENTRY_BYTES = 78  # size of a visual sample entry, before the boxes in it
_MOST_ALIKE = 1 << 22  # frames of one size, whose number no table confirms; 38 hours at 30 fps
_CONFIGS = ("avcC", "hvcC", "av1C")
_NOTHING = -1  # the media time of an edit that shows nothing
_WRITE_ANEW = "that is not supported, write the video anew without edits"


@dataclass(frozen=True)
class Coding:
    """Parameters of a decoder. Tracks with equal codings can share a decoder.

    Attributes:
        fourcc: Name of the codec, such as ``avc1``.
        config: Header of the codec.
        width: Width of a frame, in pixels.
        height: Height of a frame, in pixels.
        color: Primaries, transfer function, matrix and full range, as ISO/IEC 23091-2 numbers them; 2 is unspecified.
    """

    fourcc: str
    config: bytes
    width: int
    height: int
    color: tuple[int, int, int, bool] = (2, 2, 2, False)


@dataclass(frozen=True)
class Track:
    """The frames of a video, as parallel arrays in decoding order.

    Attributes:
        coding: Parameters of the decoder.
        ticks_per_second: Unit of ``times``.
        offsets: Offset of each frame in the file.
        sizes: Size of each frame, in bytes.
        times: Display time of each frame, in ticks.
        keys: Whether a frame can be decoded without others.
    """

    coding: Coding
    ticks_per_second: int
    offsets: Ints
    sizes: Ints
    times: Ints
    keys: NDArray[np.bool_]

    def within(self, size: int) -> "Track":
        """Return the frames before the first one that lies beyond the end of a file of ``size`` bytes.

        Raises:
            NoBox: If none is left.
        """
        beyond = np.flatnonzero((self.offsets < 0) | (self.offsets > size - self.sizes))  # no sum: it may overflow
        if not len(beyond):
            return self
        if not beyond[0]:
            raise NoBox("the file ends before its first frame: it is truncated")
        here = slice(0, beyond[0])
        return replace(
            self,
            offsets=self.offsets[here],
            sizes=self.sizes[here],
            times=self.times[here],
            keys=self.keys[here],
        )


def read_track(moov: memoryview) -> Track:
    """Read the first video track of a ``moov`` box.

    Args:
        moov: Whole box, with its header.

    Raises:
        NoBox: If the box is damaged, or there is no video track whose frames it lists.
    """
    try:
        return _track(moov, _video(moov))
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        raise error if isinstance(error, NoBox) else NoBox(f"its header is damaged: {error}") from None


def _top(moov: memoryview) -> Box:
    return box_at(moov, 0, len(moov))


def _video(moov: memoryview) -> Box:
    top = _top(moov)
    for box in boxes(moov, top.body, top.end):
        if box.name == "trak":
            handler = need(moov, box, "mdia", "hdlr")
            if bytes(moov[handler.body + 8 : handler.body + 12]) == b"vide":
                return box
    raise NoBox("there is no video track")


def _track(moov: memoryview, trak: Box) -> Track:
    ticks_per_second = _ticks_per_second(moov, need(moov, trak, "mdia", "mdhd"))
    stbl = need(moov, trak, "mdia", "minf", "stbl")
    sizes = _sizes(moov, stbl)
    count = len(sizes)
    if not count:
        raise NoBox("its header lists no frames; a fragmented MP4 is not supported, write it anew without fragments")
    shown = _run_lengths(moov, need(moov, stbl, "stts"), ">u4", count)
    times = np.cumsum(shown) - shown
    delays = find(moov, stbl, "ctts")
    if delays is not None:
        times += _run_lengths(moov, delays, ">i4", count)
    return Track(
        _coding(moov, need(moov, stbl, "stsd")),
        ticks_per_second,
        _offsets(moov, stbl, sizes),
        sizes,
        _edited(moov, trak, times, ticks_per_second),
        _keys(moov, stbl, count),
    )


def _table(moov: memoryview, box: Box, *columns: str) -> Ints:
    """Return the rows of a box with a version, a count and columns of four or eight bytes."""
    [count] = struct.unpack_from(">I", moov, box.body + 4)
    kind = np.dtype([(str(number), column) for number, column in enumerate(columns)])
    rows = np.frombuffer(moov[box.body + 8 : box.end], dtype=kind, count=count)
    return np.stack([rows[name].astype(np.int64) for name in kind.names or ()], axis=1)


def _run_lengths(moov: memoryview, box: Box, value: str, count: int) -> Ints:
    runs = _table(moov, box, ">u4", value)
    described = int(runs[:, 0].sum())
    if described != count:  # before memory is allocated for them
        raise NoBox(f"{box.name!r} describes {described} frames of {count}")
    return np.repeat(runs[:, 1], runs[:, 0])


def _keys(moov: memoryview, stbl: Box, count: int) -> NDArray[np.bool_]:
    """Return which frames are key frames: all of them, or those that are listed, counted from 1."""
    listed = find(moov, stbl, "stss")
    if listed is None:
        return np.ones(count, dtype=bool)
    numbers = _table(moov, listed, ">u4")[:, 0]
    if not numbers.all():
        raise NoBox("it lists a key frame 0, and frames are counted from 1")
    keys = np.zeros(count, dtype=bool)
    keys[numbers - 1] = True
    return keys


def _sizes(moov: memoryview, stbl: Box) -> Ints:
    box = need(moov, stbl, "stsz")
    same, count = struct.unpack_from(">II", moov, box.body + 4)
    if same and count > _MOST_ALIKE:
        raise NoBox(f"it announces {count:,} frames of {same} bytes; up to {_MOST_ALIKE:,} are read")
    if same:
        return np.full(count, same, dtype=np.int64)
    return np.frombuffer(moov[box.body + 12 : box.end], dtype=">u4", count=count).astype(np.int64)


def _offsets(moov: memoryview, stbl: Box, sizes: Ints) -> Ints:
    """Return the first byte of each frame: frames lie one after another in chunks, whose first bytes are listed."""
    short = find(moov, stbl, "stco")
    chunks = _table(moov, short, ">u4")[:, 0] if short else _table(moov, need(moov, stbl, "co64"), ">u8")[:, 0]
    runs = _table(moov, need(moov, stbl, "stsc"), ">u4", ">u4", ">u4")
    lengths = np.diff(np.append(runs[:, 0], len(chunks) + 1))
    per_chunk = np.repeat(runs[:, 1], lengths)
    if per_chunk.sum() != len(sizes):
        raise NoBox(f"its chunks hold {per_chunk.sum()} frames of {len(sizes)}")
    ends = np.cumsum(sizes)
    first_frames = np.cumsum(per_chunk) - per_chunk
    before = np.repeat((ends - sizes)[first_frames], per_chunk)
    offsets: Ints = np.repeat(chunks, per_chunk) + ends - sizes - before
    return offsets


def _edited(moov: memoryview, trak: Box, times: Ints, ticks_per_second: int) -> Ints:
    """Return the times at which frames are shown: B-frames, or a cut at the front, move the first one from 0.

    Frames in front of a cut get negative times.

    Raises:
        NoBox: If the edit list shows some of the media only, or in several parts.
    """
    box = find(moov, trak, "edts", "elst")
    wide = box is not None and moov[box.body] == 1
    rows = _table(moov, box, *((">u8", ">i8") if wide else (">u4", ">i4")), ">u4") if box else ()
    if not len(rows):
        return times
    movie_ticks = _ticks_per_second(moov, need(moov, _top(moov), "mvhd"))
    *empty, (duration, media_time) = [(int(row[0]), int(row[1])) for row in rows]
    if media_time == _NOTHING or any(begin != _NOTHING for _, begin in empty):
        raise NoBox(f"its edit list does not show the video in one part (entries: {len(rows)}); {_WRITE_ANEW}")
    is_shown = times >= media_time
    end = media_time + _rescaled(duration, ticks_per_second, movie_ticks)
    if not is_shown.any() or times.max() >= end:
        last = (end - media_time) / ticks_per_second
        raise NoBox(f"its edit list ends after {last:.3f} s, before the last frame; {_WRITE_ANEW}")
    nothing = _rescaled(sum(length for length, _ in empty), ticks_per_second, movie_ticks)
    return times - int(times[is_shown].min()) + np.where(is_shown, nothing, 0)


def _rescaled(ticks: int, new: int, old: int) -> int:
    """Return a time in another unit, rounded as FFmpeg does."""
    return (2 * ticks * new + old) // (2 * old)


def _ticks_per_second(moov: memoryview, box: Box) -> int:
    """Return the time unit in the header of a movie or of a track."""
    wide = moov[box.body] == 1
    [ticks] = struct.unpack_from(">I", moov, box.body + (20 if wide else 12))
    if not ticks:
        raise NoBox(f"{box.name!r} has a time unit of 0")
    return int(ticks)


def _coding(moov: memoryview, stsd: Box) -> Coding:
    entry = box_at(moov, stsd.body + 8, stsd.end)
    width, height = struct.unpack_from(">HH", moov, entry.body + 24)
    config = b""
    color = Coding.color
    for box in boxes(moov, entry.body + _ENTRY_BYTES, entry.end):
        if box.name in _CONFIGS:
            config = bytes(moov[box.body : box.end])
        elif box.name == "colr" and bytes(moov[box.body : box.body + 4]) == b"nclx":
            primaries, transfer, matrix, full = struct.unpack_from(">HHHB", moov, box.body + 4)
            color = (primaries, transfer, matrix, bool(full >> 7))
    return Coding(entry.name, config, width, height, color)
