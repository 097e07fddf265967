"""The bytes of files, fetched in strides: units of the cache of one size. Knows nothing of records.

A plain file is read where it is. A compressed one can not be sought: it is unpacked into pieces of the node cache, and
read from there. That begins with its first bytes, and doubles what is unpacked when more is needed:

    pieces   | 1 MiB | 1 | 1 | 1 | 4 MiB | 4 MiB | …
    made     |  first |
             |  when more is needed |
             |  then                |                |      each time from the beginning: twice the work, at most
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.readers.blobs import OpenBlobs
from penstock.readers.errors import ContentError
from penstock.readers.metadatacache import MetadataCache
from penstock.readers.ranges import Ranges
from penstock.store.blob import ByteRange
from penstock.store.cache.derived import DerivedStore, Maker, NoPiece, Piece, piece_path
from penstock.store.cache.store import CacheBackedStore
from penstock.store.extents import Extent, Unit

STRIDE_BYTES = 4 << 20
_SMALL_BYTES = 1 << 20  # of the first pieces of a compressed file: its first records need no more
_SMALL_PIECES = STRIDE_BYTES // _SMALL_BYTES
_LIKELY_RATIO = 4  # of the content to the compressed file, where the size of the content is not known yet
_ALL_BYTES = 1 << 62  # bytes: more than any file has
_SIZE_KIND = "unpacked size 1"
_BOMB_BYTES = 1 << 30  # of content, below which nothing is refused
_BOMB_RATIO = 1_000  # of the content to the compressed file; that of text is below 100


class FileBytes(ABC):
    """The content of one file, unpacked if it is compressed. Any number of threads may use it.

    Args:
        path: Path of the file in its store.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def size(self) -> int:
        """Return the size of the content. May ask the store, and unpack the whole file."""
        return self.upto(_ALL_BYTES)

    @abstractmethod
    def upto(self, end: int) -> int:
        """Return ``end``, or the size of the content if that is less. Unpacks no more than it must."""

    @abstractmethod
    def read(self, start: int, end: int) -> NDArray[np.uint8]:
        """Return bytes of the content. May wait."""

    @abstractmethod
    def extents(self, start: int, end: int) -> list[Extent]:
        """Return the extents to fetch for bytes of the content. Never waits."""

    @abstractmethod
    def cached_size(self) -> int:
        """Return the approximate size in the cache; 0 if the file is read in place. May ask the store."""


class StoredBytes(FileBytes):
    """A file as it is stored.

    Args:
        path: Path of the file.
        ranges: Reads the store by ranges.
    """

    def __init__(self, path: str, ranges: Ranges) -> None:
        super().__init__(path)
        self._ranges = ranges

    def upto(self, end: int) -> int:
        return min(end, self._ranges.size(self.path))

    def read(self, start: int, end: int) -> NDArray[np.uint8]:
        size = self._ranges.size(self.path)
        out = np.empty(end - start, np.uint8)
        for unit in _strides(start, end):
            within = (unit[0], min(unit[1], size))
            low = max(start, unit[0])
            high = min(end, within[1])
            self._ranges.readinto(self.path, within, size, low, out[low - start : high - start].data)
        return out

    def extents(self, start: int, end: int) -> list[Extent]:
        size = self._ranges.known_size(self.path)
        if size is None:
            return [Extent(Unit(self._ranges.open_store(), self.path, (0, 1)), 0)]  # fetching a byte tells the size
        return [
            self._ranges.extent(
                self.path, (unit[0], min(unit[1], size)), size, max(start, unit[0]), min(end, unit[1], size)
            )
            for unit in _strides(start, min(end, size))
        ]

    def cached_size(self) -> int:
        return self._ranges.size(self.path) if isinstance(self._ranges.open_store(), CacheBackedStore) else 0


def _strides(start: int, end: int) -> Iterator[ByteRange]:
    for number in range(start // STRIDE_BYTES, -(-end // STRIDE_BYTES)):
        yield number * STRIDE_BYTES, (number + 1) * STRIDE_BYTES


class UnpackedFiles:
    """The compressed files of a store, unpacked into pieces.

    Args:
        ranges: Reads the store by ranges.
        derive: Opens a store of the pieces that a maker makes.
        metadata: Folder of the metadata cache.
    """

    def __init__(self, ranges: Ranges, derive: Callable[[Maker], DerivedStore], metadata: Path) -> None:
        self.ranges = ranges
        self.sizes = MetadataCache(metadata, _SIZE_KIND)
        self.unpacker = FileUnpacker(ranges, metadata)
        store = derive(self.unpacker)
        self.store = store
        self.blobs = OpenBlobs(lambda: store)  # without a cycle, the refcount frees dropped files and their pins

    def open(self, path: str) -> "UnpackedBytes":
        """Return the content of a file. Reads nothing."""
        return UnpackedBytes(path, self)

    def close(self) -> None:
        self.blobs.close()


class UnpackedBytes(FileBytes):
    """The unpacked content of a compressed file.

    Args:
        path: Path of the file.
        files: Pieces of all files of the store.
    """

    def __init__(self, path: str, files: UnpackedFiles) -> None:
        super().__init__(path)
        self._files = files
        self._size: int | None = None
        self._seen = 0  # bytes that there are at least

    def upto(self, end: int) -> int:
        if end <= self._seen:
            return end
        if self._size is None:
            self._look(end)
        return end if self._size is None else min(end, self._size)

    def _look(self, end: int) -> None:
        """Unpack until ``end``, or until the size is known because the content is shorter."""
        noted = self._noted()
        if noted is not None:
            self._size = noted
            return
        number = _piece_at(end - 1)
        first, after = _piece(number)
        try:
            size = self._files.blobs.get(piece_path(self.path, number)).size
        except NoPiece:  # so all of the file was unpacked, which notes its size, unless the disk is full
            noted = self._noted()
            self._size = self._count() if noted is None else noted
            return
        if size < after - first:
            self._size = first + size
        else:
            self._seen = max(after, self._seen)

    def _noted(self) -> int | None:
        kept = self._files.sizes.get(self._files.ranges.object_version(self.path))
        return None if kept is None else int.from_bytes(kept, "little")

    def _count(self) -> int:
        """Unpack the file only to count its bytes."""
        return sum(len(buffer) for piece in self._files.unpacker.make(self.path, None) for buffer in piece)

    def read(self, start: int, end: int) -> NDArray[np.uint8]:
        out = np.empty(end - start, np.uint8)
        for number in _pieces(start, end):
            first, after = _piece(number)
            blob = self._files.blobs.get(piece_path(self.path, number))
            low = max(start, first)
            high = min(end, after)
            blob.readinto(out[low - start : high - start].data, low - first)
        return out

    def extents(self, start: int, end: int) -> list[Extent]:
        store = self._files.store
        return [Extent(Unit(store, piece_path(self.path, number)), 0) for number in _pieces(start, end)]

    def cached_size(self) -> int:
        known = self._size or self._noted()
        return _LIKELY_RATIO * self._files.ranges.size(self.path) if known is None else known


def _piece_at(at: int) -> int:
    """Return the piece of a compressed file that holds a byte of its content."""
    return at // _SMALL_BYTES if at < STRIDE_BYTES else _SMALL_PIECES - 1 + at // STRIDE_BYTES


def _piece(number: int) -> ByteRange:
    """Return the range of the content that a piece holds. The content may end before the range does."""
    if number < _SMALL_PIECES:
        return number * _SMALL_BYTES, (number + 1) * _SMALL_BYTES
    start = (number - _SMALL_PIECES + 1) * STRIDE_BYTES
    return start, start + STRIDE_BYTES


def _pieces(start: int, end: int) -> range:
    return range(_piece_at(start), _piece_at(end - 1) + 1) if end > start else range(0)


class FileUnpacker(Maker):
    """Makes pieces of a compressed file. At the end of the file it saves the size of the content on disk."""

    name = "unpacked-2"

    def __init__(self, ranges: Ranges, metadata: Path) -> None:
        self._ranges = ranges
        self._metadata = metadata

    def __reduce__(self) -> tuple[object, ...]:
        return FileUnpacker, (self._ranges, self._metadata)

    def make(self, path: str, within: ByteRange | None) -> Iterator[Piece]:  # noqa: ARG002  # the whole file
        codec = "zstd" if path.endswith(".zst") else "gzip"
        size = 0
        try:
            with pa.CompressedInputStream(pa.PythonFile(_Input(self._ranges, path), "r"), codec) as content:
                while data := _read(content, _piece(_piece_at(size))):
                    size += len(data)
                    if size > max(_BOMB_BYTES, _BOMB_RATIO * self._ranges.size(path)):
                        raise ContentError(path, None, self._bomb(path))
                    yield [data]
        except (pa.ArrowException, OSError) as error:
            raise ContentError(path, None, f"can't be unpacked: {error}") from None
        if not size:
            yield [b""]
        with suppress(OSError):  # on a full disk
            MetadataCache(self._metadata, _SIZE_KIND).put(self._ranges.object_version(path), size.to_bytes(8, "little"))

    def _bomb(self, path: str) -> str:
        return (
            f"its {self._ranges.size(path):,} bytes unpack to more than {_BOMB_BYTES >> 20:,} MiB and {_BOMB_RATIO:,} "
            "times as many: it is damaged, or made to fill the disk"
        )

    def expected_size(self, path: str, within: ByteRange | None, number: int) -> int:  # noqa: ARG002
        start, end = _piece(number)
        return end - start

    def last_piece(self, number: int) -> int:
        """Return the last piece to make with another: twice as much is unpacked then as lies before that one."""
        start, _ = _piece(number)
        return max(number, _piece_at(2 * start - 1)) if start else number


def _read(content: pa.NativeFile, within: ByteRange) -> bytes:
    """Read as many bytes as a range has, or fewer at the end."""
    left = within[1] - within[0]
    read = []
    while left and (data := content.read(left)):
        read.append(data)
        left -= len(data)
    return read[0] if len(read) == 1 else b"".join(read)


class _Input:
    """A file for sequential reads. Nothing stays open between two reads."""

    closed = False

    def __init__(self, ranges: Ranges, path: str) -> None:
        self._ranges = ranges
        self._stored = StoredBytes(path, ranges)
        self._size = ranges.size(path)
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._at + size)
        data = self._stored.read(self._at, end).tobytes()
        self._ranges.close()
        self._at = end
        return data

    def close(self) -> None:
        self.closed = True
