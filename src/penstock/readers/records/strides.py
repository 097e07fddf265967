"""Files as bytes that are fetched in strides: units of the cache of one size. Knows nothing of records.

A plain file is read where it is. A compressed one can not be sought: it is unpacked once, into pieces of the node cache
of the same size, and read from there.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.readers.blobs import OpenBlobs
from penstock.readers.errors import ContentError
from penstock.readers.ranges import Ranges
from penstock.readers.shelf import Shelf
from penstock.store.blob import ByteRange
from penstock.store.cache.derived import DerivedStore, Maker, Piece, piece_path
from penstock.store.extents import Extent, Unit

STRIDE_BYTES = 4 << 20
_SIZE_KIND = "unpacked size 1"


class Strided(Protocol):
    """A store of files, read in strides."""

    def size(self, path: str) -> int:
        """Return the size of a file's content. May ask the store, and unpack the file."""
        ...

    def read(self, path: str, start: int, end: int) -> NDArray[np.uint8]:
        """Return bytes of a file's content. May wait."""
        ...

    def extents(self, path: str, start: int, end: int) -> list[Extent]:
        """Return what has to be fetched for bytes of a file's content. Never waits."""
        ...

    def close(self) -> None: ...


class Plain:
    """Files as they are.

    Args:
        ranges: the files.
    """

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges

    def size(self, path: str) -> int:
        return self._ranges.size(path)

    def read(self, path: str, start: int, end: int) -> NDArray[np.uint8]:
        size = self._ranges.size(path)
        out = np.empty(end - start, np.uint8)
        for unit in _strides(start, end):
            within = (unit[0], min(unit[1], size))
            low = max(start, unit[0])
            high = min(end, within[1])
            self._ranges.readinto(path, within, size, low, out[low - start : high - start].data)
        return out

    def extents(self, path: str, start: int, end: int) -> list[Extent]:
        size = self._ranges.known_size(path)
        if size is None:
            return [Extent(Unit(self._ranges.store, path, (0, 1)), 0)]  # fetching a byte tells the size
        return [
            self._ranges.extent(path, (unit[0], min(unit[1], size)), size, max(start, unit[0]), min(end, unit[1], size))
            for unit in _strides(start, min(end, size))
        ]

    def close(self) -> None:
        self._ranges.close()


def _strides(start: int, end: int) -> Iterator[ByteRange]:
    for number in range(start // STRIDE_BYTES, -(-end // STRIDE_BYTES)):
        yield number * STRIDE_BYTES, (number + 1) * STRIDE_BYTES


class Unpacked:
    """The content of compressed files.

    Args:
        ranges: the files.
        derive: opens a store of pieces that a maker makes of the files.
        shelf: the folder of what was learnt about files.
    """

    def __init__(self, ranges: Ranges, derive: Callable[[Maker], DerivedStore], shelf: Path) -> None:
        self._ranges = ranges
        self._sizes = Shelf(shelf, _SIZE_KIND)
        self._known: dict[str, int] = {}
        self._unpack = Unpack(ranges, shelf)
        self._store = derive(self._unpack)
        self._blobs = OpenBlobs(lambda: self._store)

    def size(self, path: str) -> int:
        if path not in self._known:
            about = self._ranges.subject(path)
            kept = self._sizes.get(about)
            if kept is None:
                self._blobs.get(piece_path(path, 0))  # unpacks the file
                kept = self._sizes.get(about)
            # The pieces may be here while the shelf is new, or the disk full.
            self._known[path] = self._count(path) if kept is None else int.from_bytes(kept, "little")
        return self._known[path]

    def _count(self, path: str) -> int:
        """Unpack a file only to count its bytes."""
        return sum(len(buffer) for piece in self._unpack.make(path, None) for buffer in piece)

    def read(self, path: str, start: int, end: int) -> NDArray[np.uint8]:
        out = np.empty(end - start, np.uint8)
        for first, after in _strides(start, end):
            blob = self._blobs.get(piece_path(path, first // STRIDE_BYTES))
            low = max(start, first)
            high = min(end, after)
            blob.readinto(out[low - start : high - start].data, low - first)
        return out

    def extents(self, path: str, start: int, end: int) -> list[Extent]:
        return [
            Extent(Unit(self._store, piece_path(path, first // STRIDE_BYTES)), 0) for first, _ in _strides(start, end)
        ]

    def close(self) -> None:
        self._blobs.close()
        self._ranges.close()


class Unpack:
    """Makes pieces of a compressed file: its content in strides. Notes the size of the content on a shelf."""

    name = "unpacked-1"

    def __init__(self, ranges: Ranges, shelf: Path) -> None:
        self._ranges = ranges
        self._shelf = shelf

    def __reduce__(self) -> tuple[Any, ...]:
        return Unpack, (self._ranges, self._shelf)

    def make(self, path: str, within: ByteRange | None) -> Iterator[Piece]:  # noqa: ARG002  # the whole file
        codec = "zstd" if path.endswith(".zst") else "gzip"
        size = 0
        try:
            with pa.CompressedInputStream(pa.PythonFile(_Input(self._ranges, path), "r"), codec) as content:
                while data := content.read(STRIDE_BYTES):
                    while len(data) < STRIDE_BYTES and (more := content.read(STRIDE_BYTES - len(data))):
                        data += more
                    size += len(data)
                    yield [data]
        except (pa.ArrowException, OSError) as error:
            raise ContentError(path, None, f"can't be unpacked: {error}") from None
        if not size:
            yield [b""]
        with suppress(OSError):  # on a full disk
            Shelf(self._shelf, _SIZE_KIND).put(self._ranges.subject(path), size.to_bytes(8, "little"))

    def expected_size(self, path: str, within: ByteRange | None, number: int) -> int:  # noqa: ARG002
        return STRIDE_BYTES


class _Input:
    """A file that is read from the beginning to the end, a stride at a time, with nothing open in between."""

    closed = False

    def __init__(self, ranges: Ranges, path: str) -> None:
        self._plain = Plain(ranges)
        self._path = path
        self._size = ranges.size(path)
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._at + size)
        data = self._plain.read(self._path, self._at, end).tobytes()
        self._plain.close()
        self._at = end
        return data

    def close(self) -> None:
        self.closed = True
