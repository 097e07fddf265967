"""Part of a video: the frames of one episode, and the bytes from which each can be decoded.

decoding order    K  .  .  K  .  .  K  .  .        K: a key frame, which is decoded without others
bytes of file     └────────┴────────┴────────┘
a clip                  └────────┘                 needs the bytes from the key frame before it
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.plan.draws import Ints
from penstock.readers.mp4.checksums import DAMAGED
from penstock.readers.mp4.track import Coding, Track
from penstock.readers.ranges import Ranges
from penstock.store.blob import ByteRange
from penstock.store.extents import Extent

_BLOCK_BYTES = 2 << 20


class Piece(NamedTuple):
    """Frames ``first`` to ``last`` (inclusive) of a clip in decoding order. ``first`` is a key frame."""

    first: int
    last: int


@dataclass(frozen=True, eq=False)
class Clip:
    """Frames of a video that follow one another. Frames are numbered in decoding order, from the first key frame on.

    Attributes:
        path: Path of the video.
        file_size: Size of the video, in bytes.
        units: Ranges of the file that hold the clip's bytes, in order.
        frames_range: Range of the file that holds frames, without its head. The header lies before or after it.
        following: Range of the file after those of the clip, if frames lie there.
        coding: Parameters of the decoder.
        first: Number of the clip's first frame in the video.
        checksums: Checksum of each frame when it was indexed; None if some are unknown.
        offsets: Offset of each frame in the file.
        sizes: Size of each frame, in bytes.
        starts: Key frame with which decoding of each frame begins; negative if it is not in the clip, for frames that
            are not shown or whose video was cut before them.
        shown: Frames of this clip in display order.
        seconds: Display time of each of ``shown``, from the beginning of the video.
    """

    path: str
    file_size: int
    units: tuple[ByteRange, ...]
    frames_range: ByteRange
    following: tuple[ByteRange, ...]
    coding: Coding
    first: int
    checksums: Ints | None
    offsets: Ints
    sizes: Ints
    starts: Ints
    shown: Ints
    seconds: NDArray[np.float64]

    @cached_property
    def nbytes(self) -> int:
        """Size of the clip in a cache, in bytes."""
        return sum(end - start for start, end in self.units)

    @cached_property
    def _middles(self) -> NDArray[np.float64]:
        """The times between two frames."""
        return (self.seconds[1:] + self.seconds[:-1]) / 2

    def nearest(self, seconds: NDArray[np.float64]) -> tuple[Ints, NDArray[np.float64]]:
        """Return the frames that are shown nearest to some times, and how far from them, in seconds.

        The clip must have frames.
        """
        at = self._middles.searchsorted(seconds)
        return self.shown[at], np.abs(self.seconds[at] - seconds)

    def byte_range(self, piece: Piece) -> ByteRange:
        """Return the bytes of the file from the first of some frames to the end of the last."""
        if self._in_order:
            return int(self.offsets[piece.first]), int(self.offsets[piece.last] + self.sizes[piece.last])
        here = slice(piece.first, piece.last + 1)
        return int(self.offsets[here].min()), int((self.offsets[here] + self.sizes[here]).max())

    @cached_property
    def _in_order(self) -> bool:
        """Whether frames lie in the file in decoding order, as in nearly all files."""
        return bool((np.diff(self.offsets) > 0).all())

    def extents(self, ranges: Ranges, piece: Piece) -> list[Extent]:
        """Return the extents to fetch to decode some frames."""
        start, end = self.byte_range(piece)
        return [
            ranges.extent(self.path, unit, self.file_size, max(start, unit[0]), min(end, unit[1]))
            for unit in self.units
            if start < unit[1] and end > unit[0]
        ]

    def read(self, ranges: Ranges, piece: Piece) -> list[memoryview]:
        """Return the bytes of some frames."""
        start, end = self.byte_range(piece)
        parts = [
            ranges.read(self.path, unit, self.file_size, max(start, unit[0]), min(end, unit[1]))
            for unit in self.units
            if start < unit[1] and end > unit[0]
        ]
        data = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
        begins = self.offsets[piece.first : piece.last + 1].tolist()
        sizes = self.sizes[piece.first : piece.last + 1].tolist()
        return [data[begin - start : begin - start + size] for begin, size in zip(begins, sizes, strict=True)]

    def changed(self, first: int, frames: Sequence[memoryview]) -> int | None:
        """Return the first frame whose bytes differ from those that were indexed; None if all match.

        A frame that was indexed as damaged is ignored if it needs a key frame before ``first``: it is not shown.

        Args:
            first: Number of the first frame, with which decoding begins.
            frames: Bytes of consecutive frames.
        """
        if self.checksums is None:
            return None
        expected = self.checksums[first : first + len(frames)].tolist()
        for number, (data, checksum) in enumerate(zip(frames, expected, strict=True), first):
            if zlib.crc32(data) != checksum and (checksum != DAMAGED or self.starts[number] >= first):
                return number
        return None

    def blocks(self) -> Iterator[Piece]:
        """Yield all frames in pieces of some megabytes, which need not begin with a key frame."""
        block = np.cumsum(self.sizes) // _BLOCK_BYTES
        begins = np.flatnonzero(np.diff(block, prepend=-1)).tolist()
        for begin, after in pairwise([*begins, len(self.sizes)]):
            yield Piece(begin, after - 1)


def pieces(starts: Ints, frames: Iterable[int]) -> list[tuple[Piece, list[int]]]:
    """Return the fewest pieces from which frames can be decoded, each with the frames that it yields.

    A piece goes from a key frame to the last frame that is needed. Pieces that touch are joined: decoding goes on.

    Args:
        starts: ``Clip.starts``.
        frames: Frames to decode, in any order; they may repeat.
    """
    wanted = sorted(set(frames))
    found: list[tuple[Piece, list[int]]] = []
    # From the last frame on, because a frame may be decoded from an earlier key frame than one before it.
    for frame, start in zip(reversed(wanted), reversed(np.maximum(starts[wanted], 0).tolist()), strict=True):
        if found and found[-1][0].first <= frame + 1:  # decoding goes on from this frame to the piece behind it
            (first, last), own = found[-1]
            found[-1] = (Piece(min(first, start), last), [frame, *own])
        else:
            found.append((Piece(start, frame), [frame]))
    return found[::-1]


def starts_of(track: Track) -> Ints:
    """Return the key frame with which decoding of each frame begins; -1 if the video has none.

    A frame that follows a key frame in the file but is shown before it may need frames before that key frame: it is
    decoded from the key frame before.
    """
    number = np.arange(len(track.keys))
    previous = np.maximum.accumulate(np.where(track.keys, number, 0))
    leading = track.times[previous] > track.times
    before = np.concatenate([[-1], previous])[previous]  # the key frame before that of each frame
    return np.where(leading, before, previous)
