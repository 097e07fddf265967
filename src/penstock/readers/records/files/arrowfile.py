"""Arrow files of records, as files or as streams; see ``recordfile.RecordFile``.

``ArrowBatchFile`` reads record batches by themselves. Small batches that follow one another are joined to a span, which
is a unit of the cache. It is mapped into memory, as is a local file, and read there without a copy. Segments are the
same wherever the file lies:

    batches   | 3,000 | 3,000 | 3,000 |        20,000         | … rows
    spans     |       1       |   2   |           3           |
    segments  |       0       |   1   |   2   |   3   |   4   |

``ArrowTableFile`` reads files whose batches can't be read by themselves: they have dictionaries, or are of the format
of 2019 and before. A local file is read in place; a remote one enters the node cache as a whole.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.plan.draws import Ints
from penstock.readers.arrow.batches import check, to_records, without_bytes
from penstock.readers.arrow.mapped import BatchRange, MappedTables
from penstock.readers.arrow.messages import HEAD, PREFIX, Head, NotArrow
from penstock.readers.arrow.spans import JOINED_ROWS, MOST_JOINED_BYTES, MOST_ROWS, BatchSpan, BatchSpans
from penstock.readers.errors import ContentError
from penstock.readers.metadata import MetadataFinder
from penstock.readers.ranges import Ranges
from penstock.readers.records.files.recordfile import (
    NO_WEIGHT,
    BadRecord,
    Columns,
    FileSegment,
    Place,
    RecordFile,
    Weight,
)
from penstock.store.blob import ByteRange, Store
from penstock.store.cache.store import CacheBackedStore
from penstock.store.extents import Extent, Unit

_ROW_BITS = MOST_ROWS.bit_length() - 1
_SEGMENT_ROWS = 8_192  # where batches are not read by themselves
_KEPT_HEADS = 64


class ArrowFiles:
    """The Arrow files of a store.

    Args:
        ranges: Reads the store by ranges.
        open_store: Opens the store.
        metadata: Folder of the metadata cache.
        versions: Versions of the files, shared with others that read them.
    """

    def __init__(
        self, ranges: Ranges, open_store: Callable[[], Store], metadata: Path, versions: dict[str, str]
    ) -> None:
        self._ranges = ranges
        self._open_store = open_store
        self._heads = MetadataFinder(HEAD, ranges, metadata, _KEPT_HEADS)
        self._tables = MappedTables(open_store, versions)

    def open(self, path: str) -> RecordFile:
        """Return a file. Reads its beginning to choose the class: may wait."""
        head = self._heads.get(path)
        if head.schema:
            return ArrowBatchFile(path, self._ranges, head, self._tables)
        return ArrowTableFile(path, self._open_store, self._tables)

    def close(self) -> None:
        self._tables.close()


class ArrowBatchFile(RecordFile):
    """A file read by record batches. A place is the first byte of a span, and (its size, the row in it) as one number.

    Args:
        path: Path of the file.
        ranges: Reads the file by ranges.
        head: Head of the file, with a schema.
        tables: Files of the store, mapped into memory.
    """

    layout = "arrow-2"

    def __init__(self, path: str, ranges: Ranges, head: Head, tables: MappedTables) -> None:
        self.path = path
        self._ranges = ranges
        self._head = head
        self._tables = tables
        self._spans = BatchSpans(ranges, path, head)

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(self._head.schema))

    def segment(self, number: int, mark: int) -> FileSegment:
        start, first = _unpacked(mark) if number else (self._head.first, 0)
        with self._damage(start):
            span = self._spans.find(start)
        after = min(first + JOINED_ROWS, span.rows)
        rows = np.arange(first, after)
        second = ((span.end - start) << _ROW_BITS) + rows
        return FileSegment(np.stack([np.full_like(rows, start), second], axis=1), self._following(span, after))

    def _following(self, span: BatchSpan, row: int) -> int | None:
        """Return the mark of the segment that begins with a row of a span."""
        if row < span.rows:
            return _packed(span.start, row)
        if span.end == span.start or self._head.end - span.end <= PREFIX.size:  # as much is the end's mark
            return None
        return _packed(span.end, 0)

    @contextmanager
    def _damage(self, start: int) -> Iterator[None]:
        try:
            yield
        except NotArrow as error:
            reason = f"is a damaged Arrow file: {error} (in the record batches from byte {start} on)"
            raise ContentError(self.path, None, reason) from None

    def records(self, places: Ints, leave_out: Sequence[str]) -> Iterator[Columns | BadRecord]:
        if not len(places):
            return
        start, end, row = _parts(places[0].tolist())
        with self._damage(start):
            table = self._tables.table_without_bytes(self.path, *self._where(start, end), leave_out)
            yield from to_records(table.slice(row, len(places)))

    def load(self, place: Place) -> Columns:
        start, end, row = _parts(place)
        with self._damage(start):
            table = self._tables.table(self.path, *self._where(start, end))
            return next(to_records(table.slice(row, 1)))

    def _where(self, start: int, end: int) -> tuple[ByteRange | None, BatchRange]:
        """Return the unit of the cache containing a span, and the span's bytes in the unit."""
        unit = self._ranges.unit(self.path, (start, end), self._head.size)
        first = unit.within[0] if unit.within else 0
        return unit.within, BatchRange(start - first, end - first, self._schema)

    def extents(self, places: Ints) -> Sequence[Extent]:
        start, end, _ = _parts(places[0].tolist())
        return (self._ranges.extent(self.path, (start, end), self._head.size, start, end),)

    def weight(self) -> Weight:
        if not isinstance(self._ranges.open_store(), CacheBackedStore):
            return NO_WEIGHT
        first = self._spans.find(self._head.first)  # others are about as large
        return Weight(self._head.size, max(MOST_JOINED_BYTES, first.end - first.start))


def _packed(start: int, row: int) -> int:
    return (start << _ROW_BITS) + row


def _unpacked(number: int) -> tuple[int, int]:
    return number >> _ROW_BITS, number & ((1 << _ROW_BITS) - 1)


def _parts(place: Sequence[int]) -> tuple[int, int, int]:
    """Return the first byte of a span, the byte after its last, and the row in it."""
    start, second = place
    size, row = _unpacked(second)
    return start, start + size, row


class ArrowTableFile(RecordFile):
    """A file read as one table. A place is a row, and 0.

    Args:
        path: Path of the file.
        open_store: Opens the store.
        tables: Files of the store, mapped into memory.
    """

    layout = "arrow-1"

    def __init__(self, path: str, open_store: Callable[[], Store], tables: MappedTables) -> None:
        self.path = path
        self._open_store = open_store
        self._tables = tables

    def _table(self) -> pa.Table:
        with self._damage():
            return self._tables.table(self.path, None)

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except (NotArrow, UnicodeDecodeError) as error:  # the latter by a name of a column
            raise ContentError(self.path, None, f"is no Arrow file, or a damaged one: {error}") from None

    def segment(self, number: int, mark: int) -> FileSegment:  # noqa: ARG002
        rows = self._table().num_rows
        first = number * _SEGMENT_ROWS
        after = min(first + _SEGMENT_ROWS, rows)
        places = np.arange(first, max(first, after))
        return FileSegment(np.stack([places, np.zeros_like(places)], axis=1), number + 1 if after < rows else None)

    def records(self, places: Ints, leave_out: Sequence[str]) -> Iterator[Columns | BadRecord]:
        table = self._table()
        if not len(places):
            return
        with self._damage():
            here = check(table.slice(int(places[0, 0]), len(places)))
            yield from to_records(without_bytes(here, leave_out))

    def load(self, place: Place) -> Columns:
        row = self._table().slice(place[0], 1)
        with self._damage():
            return next(to_records(check(row)))

    def count(self) -> int | None:
        return max(1, -(-int(self._table().num_rows) // _SEGMENT_ROWS))

    def extents(self, places: Ints) -> Sequence[Extent]:  # noqa: ARG002
        return (Extent(Unit(self._open_store(), self.path), 0),)

    def weight(self) -> Weight:
        store = self._open_store()
        if not isinstance(store, CacheBackedStore):
            return NO_WEIGHT
        size = store.resolve_size(self.path)
        return Weight(size, size)
