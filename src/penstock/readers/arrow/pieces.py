"""Tables in Arrow's format, mapped into memory: pieces of the node cache, and files. Knows no column's meaning."""

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from penstock.readers.blobs import OpenBlobs
from penstock.runtime.forking import reset_in_children
from penstock.store.blob import ByteRange, Store
from penstock.store.cache.blob import CachedBlob
from penstock.store.cache.derived import Piece
from penstock.store.local import LocalBlob

_MAGIC = b"ARROW1"
_OPEN_PIECES = 64  # mapped at a time; most are pinned by the feed as well


def table_bytes(table: pa.Table) -> Piece:
    """Return a table as the bytes of a piece."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return [memoryview(sink.getvalue())]


def cut(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Yield tables of exactly ``rows`` rows, the last one of fewer, from batches of any size."""
    kept: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        while count + batch.num_rows >= rows:
            taken = rows - count
            yield pa.Table.from_batches([*kept, batch.slice(0, taken)])
            batch = batch.slice(taken)
            kept = []
            count = 0
        if batch.num_rows:
            kept.append(batch)
            count += batch.num_rows
    if kept:
        yield pa.Table.from_batches(kept)


class MappedTables:
    """Tables of a store, each in an object of its own. Any number of threads may use it.

    Args:
        open_store: opens the store: a folder, or one over the node cache.
    """

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._blobs = OpenBlobs(open_store, _OPEN_PIECES)
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._lock = threading.Lock()
        self._tables: weakref.WeakKeyDictionary[Any, pa.Table] = weakref.WeakKeyDictionary()

    def table(self, path: str, within: ByteRange | None) -> pa.Table:
        """Return a table. Its bytes stay in the page cache; they are valid for as long as the table is held.

        Args:
            path: of the object; of a piece see ``piece_path``.
            within: of a piece, the range of the input that it was made from.

        Raises:
            pyarrow.ArrowException: If the object is damaged.
            ObjectChanged: If it is a local file that was written to since it was opened.
        """
        blob = self._blobs.get(path, within=within)
        assert isinstance(blob, CachedBlob | LocalBlob)
        if isinstance(blob, LocalBlob):
            blob.require_unchanged()  # what is mapped would not be what was indexed
        with self._lock:
            known = self._tables.get(blob)
        if known is not None:
            return known
        if isinstance(blob, CachedBlob) and blob.missing(0, blob.size):
            blob.fetch_whole()
        try:
            table = _opened(pa.BufferReader(pa.py_buffer(blob.mapped()))).read_all()
        except (OSError, ValueError) as error:  # a message is cut short, or the file is empty
            raise pa.ArrowInvalid(str(error)) from None
        with self._lock:
            return self._tables.setdefault(blob, table)

    def close(self) -> None:
        self._blobs.close()


def _opened(source: pa.BufferReader) -> Any:
    """Open a table that is a file with a footer, or a stream."""
    is_file = source.read(len(_MAGIC)) == _MAGIC
    source.seek(0)
    return pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
