"""Checksums of the frames of a video from ``penstock index``: a run refuses frames whose bytes have changed.

They belong to a path, whatever the version of the file, because damage often changes the version. Decodes nothing.
"""

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.plan.draws import Ints
from penstock.readers.metadatacache import MetadataCache, ObjectVersion
from penstock.readers.mp4.boxes import NoBox
from penstock.readers.mp4.track import Track

UNKNOWN = -1  # a frame that was not read
DAMAGED = -2  # a frame that was read, and can't be decoded: no bytes have this checksum
_HEADER = struct.Struct("<I")


@dataclass(frozen=True)
class Checksums:
    """Checksums of a video.

    Attributes:
        header: Checksum of what the header says about the frames.
        frames: CRC-32 of each frame in decoding order, ``UNKNOWN`` or ``DAMAGED``.
    """

    header: int
    frames: Ints

    @classmethod
    def unknown(cls, track: Track) -> "Checksums":
        """Return the checksums of a video of which no frame was read."""
        return cls(_header(track), np.full(len(track.offsets), UNKNOWN, np.int64))


class ChecksumCache:
    """The checksums of a store's videos, on disk.

    Args:
        folder: Folder of the metadata cache.
        store: Identity of the store.
    """

    def __init__(self, folder: Path, store: str) -> None:
        self._metadata = MetadataCache(folder, "checksums of frames 1")
        self._store = store

    def get(self, path: str, track: Track) -> Checksums | None:
        """Return the checksums of a video; None if it was not indexed.

        Raises:
            NoBox: If the video has another header now.
        """
        data = self._metadata.get(self._key(path))
        if data is None:
            return None
        [header] = _HEADER.unpack_from(data)
        if header != _header(track):
            raise NoBox(
                "its header, or its length, is not what `penstock index` read: the file is damaged, or was replaced; "
                "restore it, or index it with --anew"
            )
        return Checksums(header, np.frombuffer(data, "<i8", offset=_HEADER.size))

    def has(self, path: str) -> bool:
        """Return whether a video was indexed."""
        return self._metadata.get(self._key(path)) is not None

    def put(self, path: str, found: Checksums) -> None:
        self._metadata.put(self._key(path), _HEADER.pack(found.header) + found.frames.astype("<i8").tobytes())

    def remove(self, path: str) -> None:
        """Remove the checksums of a video, as if it had never been indexed."""
        self._metadata.remove(self._key(path))

    def _key(self, path: str) -> ObjectVersion:
        return ObjectVersion(self._store, path, "any version")


def _header(track: Track) -> int:
    coding = track.coding
    about = f"{coding.fourcc} {coding.width} {coding.height} {coding.color} {track.ticks_per_second} "
    checksum = zlib.crc32(about.encode() + coding.config)
    for column in (track.offsets, track.sizes, track.times, track.keys):
        checksum = zlib.crc32(column.astype("<i8").tobytes(), checksum)
    return checksum
