"""Tracks of videos as something that is learnt: found in a file, kept on a shelf as bytes."""

import json
import struct
from dataclasses import asdict

import numpy as np

from penstock.readers.metadata import MetadataKind
from penstock.readers.mp4.header import find_moov
from penstock.readers.mp4.track import Coding, Track, read_track
from penstock.readers.ranges import Search

_LENGTHS = struct.Struct("<II")  # of the description, and the number of frames


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
"""Tracks, as they are kept on a shelf."""
