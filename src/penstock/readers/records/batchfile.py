"""Arrow files of records, as files or as streams, read by record batches; see ``recordfile.RecordFile``.

Small batches that follow one another are joined to a span, which is a unit of the cache. It is mapped into memory, as
is a local file, and read there without a copy. Segments are the same wherever the file lies:

    batches   | 3,000 | 3,000 | 3,000 |        20,000         | … rows
    spans     |       1       |   2   |           3           |
    segments  |       0       |   1   |   2   |   3   |   4   |
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.plan.draws import Ints
from penstock.readers.arrow.batches import to_records
from penstock.readers.arrow.mapped import MappedTables, Part
from penstock.readers.arrow.messages import PREFIX, Head, NotArrow
from penstock.readers.arrow.spans import JOINED_ROWS, MOST_JOINED, MOST_ROWS, Span, Spans
from penstock.readers.errors import ContentError
from penstock.readers.ranges import Ranges
from penstock.readers.records.content import BadRecord
from penstock.readers.records.recordfile import NO_WEIGHT, Place, Segment, Weight
from penstock.store.blob import ByteRange
from penstock.store.cache.store import CacheBackedStore
from penstock.store.extents import Extent

_ROW_BITS = MOST_ROWS.bit_length() - 1


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
        self._spans = Spans(ranges, path, head)

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(self._head.schema))

    def segment(self, number: int, mark: int) -> Segment:
        start, first = _unpacked(mark) if number else (self._head.first, 0)
        with self._damage(start):
            span = self._spans.find(start)
        after = min(first + JOINED_ROWS, span.rows)
        rows = np.arange(first, after)
        second = ((span.end - start) << _ROW_BITS) + rows
        return Segment(np.stack([np.full_like(rows, start), second], axis=1), self._following(span, after))

    def _following(self, span: Span, row: int) -> int | None:
        """Return the mark of what follows a row of a span."""
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

    def records(self, places: Ints, leave_out: Sequence[str]) -> Iterator[dict[str, Any] | BadRecord]:
        if not len(places):
            return
        start, end, row = _parts(places[0].tolist())
        with self._damage(start):
            table = self._tables.table_without_bytes(self.path, *self._where(start, end), leave_out)
            yield from to_records(table.slice(row, len(places)))

    def load(self, place: Place) -> dict[str, Any]:
        start, end, row = _parts(place)
        with self._damage(start):
            table = self._tables.table(self.path, *self._where(start, end))
            return next(to_records(table.slice(row, 1)))

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
        if not isinstance(self._ranges.open_store(), CacheBackedStore):
            return NO_WEIGHT
        first = self._spans.find(self._head.first)  # others are about as large
        return Weight(self._head.size, max(MOST_JOINED, first.end - first.start))

    def close(self) -> None:
        self._tables.close()
        self._ranges.close()


def _packed(start: int, row: int) -> int:
    return (start << _ROW_BITS) + row


def _unpacked(number: int) -> tuple[int, int]:
    return number >> _ROW_BITS, number & ((1 << _ROW_BITS) - 1)


def _parts(place: Sequence[int]) -> tuple[int, int, int]:
    """Return where a span begins and ends, and the row in it."""
    start, second = place
    size, row = _unpacked(second)
    return start, start + size, row
