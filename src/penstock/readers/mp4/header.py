"""The header of an MP4 file, its ``moov`` box: searched for by ranges, and the track in it as metadata on disk.

ftyp | moov | mdat …        the header first: one request mostly reads all of it
ftyp | mdat …… | moov       the header after the frames: found by its size at the front
"""

import json
import struct
from dataclasses import asdict

import numpy as np

from penstock.readers.metadata import MetadataKind
from penstock.readers.mp4.boxes import LONGEST_HEADER, NoBox, box_at
from penstock.readers.mp4.track import Coding, Track, read_track
from penstock.readers.ranges import Search

LEAST_HEAD_BYTES = 4 << 10
_MOST_HEAD_BYTES = 64 << 10
_STRIDE_BYTES = 4096
_TAIL_BYTES = 4 << 20  # what follows the frames is read at once up to this size: it is mostly the header
_FIRST_BOXES = (b"ftyp", b"styp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"uuid")
_MOST_BOXES = 1_000  # passed over before the header; files have a handful
_LENGTHS = struct.Struct("<II")  # length of the description, number of frames


def head_bytes(size: int) -> int:
    """Return how much of a file of some size is read first.

    A header has about 6 bytes per frame: where it is in front, this mostly holds all of it, and one request is enough.
    """
    return min(max(size // 256, LEAST_HEAD_BYTES), _MOST_HEAD_BYTES, size)


def find_moov(size: int) -> Search[memoryview]:
    """Search a file for its ``moov`` box: see ``Ranges.follow``.

    Returns:
        The whole box.

    Raises:
        NoBox: If this is not an MP4 file, or it is truncated.
    """
    offset = 0
    data = yield (0, head_bytes(size))
    if len(data) >= 8 and bytes(data[4:8]) not in _FIRST_BOXES:
        raise NoBox(f"not an MP4 file: it begins with {bytes(data[:8])!r}")
    at = 0
    for _ in range(_MOST_BOXES):
        if at >= size:
            break
        if not offset <= at <= at + LONGEST_HEADER <= offset + len(data) and offset + len(data) < size:
            offset = at
            data = yield (at, size if size - at <= _TAIL_BYTES else at + _STRIDE_BYTES)
        box = box_at(data, at, size, offset)
        if box.name == "moov":
            here = data[at - offset : box.end - offset]
            missing = box.end - at - len(here)
            if not missing:
                return here
            rest = yield (box.end - missing, box.end)
            return memoryview(bytes(here) + bytes(rest))
        at = box.end
    raise NoBox("there is no box 'moov': not an MP4 file, or it is truncated")


def _to_bytes(track: Track) -> bytes:
    coding = {**asdict(track.coding), "config": track.coding.config.hex()}
    about = json.dumps({"ticks_per_second": track.ticks_per_second, "coding": coding}).encode()
    columns = (track.offsets, track.times, track.sizes.astype("<u4"), track.keys)
    arrays = b"".join(np.ascontiguousarray(column).tobytes() for column in columns)
    return _LENGTHS.pack(len(about), len(track.offsets)) + about + arrays


def _from_bytes(data: memoryview) -> Track:
    length, frames = _LENGTHS.unpack_from(data)
    at = _LENGTHS.size + length
    about = json.loads(bytes(data[_LENGTHS.size : at]))
    coding = about["coding"]
    columns = []
    for kind in ("<i8", "<i8", "<u4", "?"):
        columns.append(np.frombuffer(data, dtype=kind, count=frames, offset=at))
        at += columns[-1].nbytes
    offsets, times, sizes, keys = columns
    return Track(
        Coding(**{**coding, "config": bytes.fromhex(coding["config"]), "color": tuple(coding["color"])}),
        about["ticks_per_second"],
        offsets,
        sizes.astype(np.int64),
        times,
        keys,
    )


def _search(size: int) -> Search[Track]:
    return read_track((yield from find_moov(size))).within(size)


TRACK = MetadataKind("frames of a video 2", _search, _to_bytes, _from_bytes)
"""Tracks of videos as metadata: found in the header of a file, cached on disk as bytes."""
