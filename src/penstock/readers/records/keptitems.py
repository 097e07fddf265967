"""What is kept of the items of a segment, such as their tokens: read item by item, by any process. Knows no content.

    <name>.items     what is kept of item 0 | of item 1 | …
    on the shelf     where each ends, and its CRC-32

The shelf entry is written last: without it the other file counts as missing. An item that is damaged is missing, too.
"""

import hashlib
import itertools
import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from penstock.manifest.publish import locked
from penstock.readers.lrucache import LruCache
from penstock.readers.metadatacache import MetadataCache, ObjectVersion, make_folder
from penstock.runtime.atomicwrite import write_atomically

_KIND = "ends of what is kept 1"
_OPEN_FILES = 128
_BYTES_PER_ITEM = 12  # of the table on the shelf: where it ends, and its checksum


class _Segment:
    """The file of one segment, open; or nothing, if nothing is kept."""

    def __init__(self, path: Path, table: memoryview) -> None:
        count = len(table) // _BYTES_PER_ITEM
        self._ends = np.frombuffer(table, np.int64, count)
        self._checksums = np.frombuffer(table, np.uint32, count, self._ends.nbytes)
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if count else -1
        except FileNotFoundError:
            self._ends = self._ends[:0]
            self._descriptor = -1

    def __len__(self) -> int:
        return len(self._ends)

    def get(self, item: int) -> bytes | None:
        if item >= len(self):
            return None
        start = int(self._ends[item - 1]) if item else 0
        data = os.pread(self._descriptor, int(self._ends[item]) - start, start)
        return data if zlib.crc32(data) == self._checksums[item] else None

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0 and os is not None:  # modules are None at interpreter shutdown
            os.close(self._descriptor)


# Of all files of a process: descriptors are few.
_open: LruCache[Path, _Segment] = LruCache(_OPEN_FILES)


class KeptItems:
    """What is kept of the items of one file. Any number of threads and processes may use it.

    Args:
        folder: of the shelf.
        about: names all that it depends on, beside the file.
        subject: returns the version of the file.
    """

    def __init__(self, folder: Path, about: str, subject: Callable[[], ObjectVersion]) -> None:
        self._folder = folder
        self._about = about
        self._subject = subject
        self._paths: dict[int, Path] = {}

    def get(self, segment: int, item: int) -> bytes | None:
        """Return what is kept of an item; None if nothing is, or it is damaged."""
        return _open.get_or_make(self._path(segment), lambda: self._opened(segment)).get(item)

    def has(self, segment: int, items: int) -> bool:
        """Return whether something is kept of all items of a segment."""
        return len(self._opened(segment)) == items

    def put(self, segment: int, kept: Sequence[bytes]) -> None:
        """Keep something of all items of a segment."""
        ends = np.fromiter(itertools.accumulate(map(len, kept)), np.int64, len(kept))
        checksums = np.fromiter(map(zlib.crc32, kept), np.uint32, len(kept))
        make_folder(self._folder)
        with locked(self._folder / ".items.lock"):
            write_atomically(self._path(segment), kept)
        self._shelf(segment).put(self._subject(), ends.tobytes() + checksums.tobytes())
        _open.remove(self._path(segment))

    def _opened(self, segment: int) -> _Segment:
        table = self._shelf(segment).get(self._subject())
        return _Segment(self._path(segment), memoryview(b"") if table is None else table)

    def _shelf(self, segment: int) -> MetadataCache:
        return MetadataCache(self._folder, f"{_KIND}: segment {segment} of {self._about}")

    def _path(self, segment: int) -> Path:
        found = self._paths.get(segment)
        if found is None:
            name = hashlib.sha256(f"{self._subject()} {segment} {self._about}".encode()).hexdigest()[:32]
            found = self._paths.setdefault(segment, self._folder / f"{name}.items")
        return found
