"""Tables in Arrow's format, mapped into memory: pieces of the node cache, and files. Knows no column's meaning."""

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from penstock.readers.arrow.batches import read_batches, read_without_bytes, without_bytes
from penstock.readers.arrow.messages import MAGIC, NotArrow
from penstock.readers.blobs import OpenBlobs
from penstock.readers.lrucache import LruCache
from penstock.runtime.forking import reset_in_children
from penstock.store.blob import ByteRange, Store
from penstock.store.cache.blob import CachedBlob
from penstock.store.local import LocalBlob

_OPEN_PIECES = 64  # mapped at a time; most are pinned by the feed as well
_OPEN_PARTS = 64  # of each


class BatchRange(NamedTuple):
    """Consecutive record batches of an object.

    Attributes:
        start: First byte of the first batch.
        end: Byte after the last batch.
        schema: Schema of the batches.
    """

    start: int
    end: int
    schema: pa.Schema


class _Mapping(NamedTuple):
    """A mapped object, and the latest tables read from it, by byte range and omitted columns."""

    data: pa.Buffer
    tables: LruCache[tuple[int, int, tuple[str, ...] | None], pa.Table]


class MappedTables:
    """Tables of a store, each an object of its own or a part of one. Any number of threads may use it.

    Args:
        open_store: Opens the store: a folder, or one over the node cache.
        versions: Versions of the objects, shared with others that read them; see ``OpenBlobs``.
    """

    def __init__(self, open_store: Callable[[], Store], versions: dict[str, str] | None = None) -> None:
        self._blobs = OpenBlobs(open_store, _OPEN_PIECES, versions=versions)
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._lock = threading.Lock()
        self._mappings: weakref.WeakKeyDictionary[CachedBlob | LocalBlob, _Mapping] = weakref.WeakKeyDictionary()

    def table(self, path: str, within: ByteRange | None, part: BatchRange | None = None) -> pa.Table:
        """Return a table. It is mapped for as long as it is held.

        The rows of a part are validated when it is first read; those of a whole object are not.

        Args:
            path: Path of the object; for a piece, see ``piece_path``.
            within: Range of the object that is a unit of the cache; for a piece, the range of its input.
            part: Record batches of the unit to read; None for all.

        Raises:
            NotArrow: If the object is damaged.
            ObjectChanged: If it is a local file that was written to since it was opened.
        """
        blob, mapping = self._open(path, within)
        start, end = part[:2] if part else (0, blob.size)

        def read() -> pa.Table:
            if isinstance(blob, CachedBlob):
                blob.fetch_ranges([(start, end)])
            data = mapping.data[start:end]
            return read_batches(data, part.schema) if part else _opened(data)

        return mapping.tables.get_or_make((start, end, None), read)

    def table_without_bytes(
        self, path: str, within: ByteRange | None, part: BatchRange, leave_out: Sequence[str]
    ) -> pa.Table:
        """Return a table without the bytes of media. They are not fetched if they have buffers of their own.

        Args:
            path: Path of the object.
            within: Range of the object that is a unit of the cache.
            part: Record batches of the unit to read.
            leave_out: Columns of media.

        Raises:
            NotArrow: If it is damaged.
            ObjectChanged: If it is a local file that was written to since it was opened.
        """
        blob, mapping = self._open(path, within)

        def fetch(ranges: Iterable[ByteRange]) -> None:
            if isinstance(blob, CachedBlob):
                blob.fetch_ranges((part.start + start, part.start + end) for start, end in ranges)

        def read() -> pa.Table:
            data = mapping.data[part.start : part.end]
            table = read_without_bytes(data, part.schema, leave_out, fetch)
            return without_bytes(self.table(path, within, part), leave_out) if table is None else table

        return mapping.tables.get_or_make((part.start, part.end, tuple(leave_out)), read)

    def _open(self, path: str, within: ByteRange | None) -> tuple[CachedBlob | LocalBlob, _Mapping]:
        blob = self._blobs.get(path, within=within)
        assert isinstance(blob, CachedBlob | LocalBlob)
        if isinstance(blob, LocalBlob):
            blob.require_unchanged()  # what is mapped would not be what was indexed
        with self._lock:
            mapping = self._mappings.get(blob)
            if mapping is None:
                mapping = self._mappings[blob] = _Mapping(_mapped(blob), LruCache(_OPEN_PARTS))
        return blob, mapping

    def close(self) -> None:
        self._blobs.close()


def _mapped(blob: CachedBlob | LocalBlob) -> pa.Buffer:
    return pa.py_buffer(blob.mapped() if blob.size else b"")


def _opened(data: pa.Buffer) -> pa.Table:
    """Read a table that is a file with a footer, or a stream."""
    is_file = data[: len(MAGIC)].to_pybytes() == MAGIC
    try:
        return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(data).read_all()
    except (pa.ArrowException, OSError, ValueError) as error:  # all from pyarrow: the bytes are in memory
        raise NotArrow(str(error)) from None
