"""What is kept of the items of a file, such as their tokens. It is read item by item:

    <name>.items     what is kept of item 0 | of item 1 | …
    metadata cache   where each ends, and its CRC-32

The metadata is written last: without it the other file counts as missing. An item that is damaged is missing, too.
"""

import hashlib
import itertools
import os
import shutil
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
_BYTES_PER_ITEM = 12  # in the metadata cache: where it ends, and its checksum


class _KeptFile:
    """An open file of what is kept of a segment's items. Empty if nothing is kept."""

    def __init__(self, path: Path, table: memoryview) -> None:
        self._descriptor = -1
        count = len(table) // _BYTES_PER_ITEM
        self._ends = np.frombuffer(table, np.int64, count)
        self._checksums = np.frombuffer(table, np.uint32, count, self._ends.nbytes)
        try:
            if count:
                self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._ends = self._ends[:0]

    def __len__(self) -> int:
        return len(self._ends)

    def get(self, item: int) -> bytes | None:
        if item >= len(self):
            return None
        start = int(self._ends[item - 1]) if item else 0
        data = os.pread(self._descriptor, int(self._ends[item]) - start, start)
        return data if zlib.crc32(data) == self._checksums[item] else None

    def __del__(self) -> None:
        if self._descriptor >= 0 and os is not None:  # modules are None at interpreter shutdown
            os.close(self._descriptor)


# Of all files of a process: descriptors are few.
_open: LruCache[Path, _KeptFile] = LruCache(_OPEN_FILES)


class KeptItems:
    """What is kept of the items of one file. Any number of threads and processes may use it.

    Args:
        folder: Folder of the metadata cache.
        about: Name of all that it depends on, beside the file.
        subject: Returns the version of the file.
    """

    def __init__(self, folder: Path, about: str, subject: Callable[[], ObjectVersion]) -> None:
        self._folder = folder
        self._about = about
        self._subject = subject
        self._paths: dict[int, Path] = {}

    def get(self, segment: int, item: int) -> bytes | None:
        """Return what is kept of an item; None if nothing is, or it is damaged."""
        return _open.get_or_make(self._path(segment), lambda: self._opened(segment)).get(item)

    def has_room(self) -> bool:
        """Return whether a tenth of the disk, and a gigabyte, is free."""
        there = next(each for each in (self._folder, *self._folder.absolute().parents) if each.exists())
        disk = shutil.disk_usage(there)
        return disk.free > max(disk.total // 10, 1 << 30)

    def has(self, segment: int, items: int) -> bool:
        """Return whether something is kept of all items of a segment."""
        return len(self._opened(segment)) == items

    def size(self, segment: int) -> int:
        """Return the number of bytes that are kept of a segment."""
        try:
            return self._path(segment).stat().st_size
        except FileNotFoundError:
            return 0

    def put(self, segment: int, kept: Sequence[bytes]) -> None:
        """Keep bytes of all items of a segment.

        Args:
            segment: Number of the segment.
            kept: Bytes to keep of each item.
        """
        ends = np.fromiter(itertools.accumulate(map(len, kept)), np.int64, len(kept))
        checksums = np.fromiter(map(zlib.crc32, kept), np.uint32, len(kept))
        make_folder(self._folder)
        with locked(self._folder / ".items.lock"):
            write_atomically(self._path(segment), kept)
        self._metadata(segment).put(self._subject(), ends.tobytes() + checksums.tobytes())
        _open.remove(self._path(segment))

    def _opened(self, segment: int) -> _KeptFile:
        table = self._metadata(segment).get(self._subject())
        return _KeptFile(self._path(segment), memoryview(b"") if table is None else table)

    def _metadata(self, segment: int) -> MetadataCache:
        return MetadataCache(self._folder, f"{_KIND}: segment {segment} of {self._about}")

    def _path(self, segment: int) -> Path:
        found = self._paths.get(segment)
        if found is None:
            name = _kept_file(self._subject(), str(segment), self._about)
            found = self._paths.setdefault(segment, self._folder / name)
        return found


def file_key(version: ObjectVersion) -> str:
    """Return the key whose digests name kept files. Under another key, kept tokens are not found."""
    return f"Subject(store={version.store!r}, path={version.path!r}, version={version.version!r})"


def kept_name(kind: str, version: ObjectVersion) -> str | None:
    """Return the name of the file that some metadata belongs to; None for metadata of another kind."""
    name, _, rest = kind.partition(": segment ")
    segment, _, about = rest.partition(" of ")
    return _kept_file(version, segment, about) if name == _KIND else None


def _kept_file(version: ObjectVersion, segment: str, about: str) -> str:
    key = f"{file_key(version)} {segment} {about}"
    return f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.items"
