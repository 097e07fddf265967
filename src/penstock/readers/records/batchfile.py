"""Arrow files of records, as files or as streams, read by record batches; see ``recordfile.RecordFile``.

Small batches that follow one another are joined to a span, which is a unit of the cache. It is mapped into memory, as
is a local file, and read there without a copy. Segments are the same wherever the file lies:

    batches   | 3,000 | 3,000 | 3,000 |        20,000         | … rows
    spans     |       1       |   2   |           3           |
    segments  |       0       |   1   |   2   |   3   |   4   |
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.plan.draws import Ints
from penstock.readers.arrow.batches import to_records
from penstock.readers.arrow.messages import PREFIX, Head, Message, NotArrow, batch_message, metadata_end
from penstock.readers.arrow.pieces import MappedTables, Part
from penstock.readers.errors import ContentError
from penstock.readers.ranges import Ranges
from penstock.readers.records.content import BadRecord
from penstock.readers.records.recordfile import NO_WEIGHT, Place, Segment, Weight
from penstock.store.blob import ByteRange
from penstock.store.cache.backed import CacheBacked
from penstock.store.extents import Extent

_SEGMENT_ROWS = 8_192  # at most, and of a span, unless it is one batch that has more
_LEAST_JOINED = 960 << 10  # bytes of a span, unless it is one batch that has more: few, so that a run begins soon
_MOST_JOINED = 4 << 20  # where as many lie before it
_ROW_BITS = 27
_MOST_BYTES = 1 << 36  # of a span
_APART_BYTES = 16 << 10  # read to see where a batch ends: as a rule more than its metadata takes
_CLOSE_BYTES = 256 << 10  # the same, where batches are small
_SMALL_BYTES = 64 << 10  # of a batch: more of them would take many requests, each of which waits for the one before


class _Span(NamedTuple):
    """Record batches that are read together.

    Attributes:
        start: of the first, in bytes.
        end: of the last.
        rows: of all.
    """

    start: int
    end: int
    rows: int


class BatchFile:
    """One file. A place is the byte at which a span begins; and how many bytes it has, and the row in it.

    Args:
        path: of the file.
        ranges: reads it.
        head: of the file, with a schema.
        tables: the files of the store, mapped.
    """

    layout = "arrow-2"

    def __init__(self, path: str, ranges: Ranges, head: Head, tables: MappedTables) -> None:
        self.path = path
        self._ranges = ranges
        self._head = head
        self._tables = tables

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(self._head.schema))

    def segment(self, number: int, mark: int) -> Segment:
        start, first = _unpacked(mark) if number else (self._head.first, 0)
        span = self._span(start)
        after = min(first + _SEGMENT_ROWS, span.rows)
        rows = np.arange(first, after)
        second = ((span.end - start) << _ROW_BITS) + rows
        return Segment(np.stack([np.full_like(rows, start), second], axis=1), self._following(span, after))

    def _following(self, span: _Span, row: int) -> int | None:
        """Return the mark of what follows a row of a span."""
        if row < span.rows:
            return _packed(span.start, row)
        if span.end == span.start or self._head.end - span.end <= PREFIX.size:  # as much is the end's mark
            return None
        return _packed(span.end, 0)

    def _span(self, start: int) -> _Span:
        """Find the record batches of the span that begins at a byte."""
        at = start
        rows = 0
        most = start + max(_LEAST_JOINED, min(start, _MOST_JOINED))
        heads = _Heads(self._ranges, self.path, self._head.size, most)
        while at < min(most, self._head.end):
            message = self._message(heads, at)
            if message is None or (rows and (at + message.size > most or rows + message.rows > _SEGMENT_ROWS)):
                break
            at += message.size
            rows += message.rows
            heads.ahead = _CLOSE_BYTES if message.size < _SMALL_BYTES else _APART_BYTES
        if rows >= 1 << _ROW_BITS or at - start >= _MOST_BYTES:
            raise self._damaged(f"a record batch of {rows:,} rows and {at - start:,} bytes is too large", start)
        return _Span(start, at, rows)

    def _message(self, heads: "_Heads", at: int) -> Message | None:
        """Return what is said of the record batch at a byte; None at the end."""
        try:
            body = metadata_end(heads.read(at, at + PREFIX.size))
            if not body:
                self._require_end(at + PREFIX.size)
                return None
            message = batch_message(heads.read(at, at + body))
        except (NotArrow, EOFError) as error:
            raise self._damaged(str(error), at) from None
        if at + message.size > self._head.end:
            raise self._damaged("a record batch is truncated", at)
        return message

    def _require_end(self, at: int) -> None:
        """Refuse a file whose messages end before its footer: batches would be lost."""
        if self._head.end < self._head.size and self._head.end - at >= PREFIX.size:
            raise self._damaged("there is more between its record batches and its footer", at)

    def _damaged(self, reason: str, at: int) -> ContentError:
        return ContentError(self.path, None, f"is a damaged Arrow file: {reason} (at byte {at})")

    def records(self, places: Ints, leave_out: Sequence[str]) -> Iterator[dict[str, Any] | BadRecord]:
        if not len(places):
            return
        start, end, row = _parts(places[0].tolist())
        try:
            table = self._tables.table_without_bytes(self.path, *self._where(start, end), leave_out)
            yield from to_records(table.slice(row, len(places)))
        except NotArrow as error:
            raise self._damaged(str(error), start) from None

    def load(self, place: Place) -> dict[str, Any]:
        start, end, row = _parts(place)
        try:
            table = self._tables.table(self.path, *self._where(start, end))
            return next(to_records(table.slice(row, 1)))
        except NotArrow as error:
            raise self._damaged(str(error), start) from None

    def _where(self, start: int, end: int) -> tuple[ByteRange | None, Part]:
        """Return the unit of the cache that a span lies in, and where it lies in that."""
        unit = self._ranges.unit(self.path, (start, end), self._head.size)
        first = unit.within[0] if unit.within else 0
        return unit.within, Part(start - first, end - first, self._schema)

    def extents(self, places: Ints) -> Sequence[Extent]:
        start, end, _ = _parts(places[0].tolist())
        return (self._ranges.extent(self.path, (start, end), self._head.size, start, end),)

    def count(self) -> int | None:
        return None

    def weight(self) -> Weight:
        if not isinstance(self._ranges.store, CacheBacked):
            return NO_WEIGHT
        first = self._span(self._head.first)  # others are about as large
        return Weight(self._head.size, max(_MOST_JOINED, first.end - first.start))

    def close(self) -> None:
        self._tables.close()
        self._ranges.close()


class _Heads:
    """The beginnings of messages that follow one another.

    Args:
        ranges: reads the file.
        path: of the file.
        size: of the file.
        end: byte up to which they are needed.

    Attributes:
        ahead: bytes that are read at a time.
    """

    def __init__(self, ranges: Ranges, path: str, size: int, end: int) -> None:
        self._ranges = ranges
        self._path = path
        self._size = size
        self._end = min(end, size)
        self._first = 0
        self._data = memoryview(b"")
        self.ahead = _APART_BYTES

    def read(self, start: int, end: int) -> memoryview:
        """Return bytes of the file.

        Raises:
            EOFError: If it has fewer.
        """
        if end > self._size:
            raise EOFError("it is truncated")
        if not self._first <= start <= end <= self._first + len(self._data):
            after = max(end, min(start + self.ahead, self._end))
            self._data = self._ranges.read(self._path, (start, after), self._size, start, after)
            self._first = start
        return self._data[start - self._first : end - self._first]


def _packed(start: int, row: int) -> int:
    return (start << _ROW_BITS) + row


def _unpacked(number: int) -> tuple[int, int]:
    return number >> _ROW_BITS, number & ((1 << _ROW_BITS) - 1)


def _parts(place: Sequence[int]) -> tuple[int, int, int]:
    """Return where a span begins and ends, and the row in it."""
    start, second = place
    size, row = _unpacked(second)
    return start, start + size, row
