"""Row groups of Parquet files -> pieces in Arrow's format, for random access. Knows no column's meaning."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.readers.metadata import MetadataFinder
from penstock.readers.parquet.footer import FOOTER, Footer, NotParquet
from penstock.readers.parquet.memory import rows_within
from penstock.readers.parquet.rows import row_batches
from penstock.readers.ranges import Ranges
from penstock.store.blob import ByteRange
from penstock.store.cache.derived import Maker, Piece
from penstock.store.extents import Extent

MOST_ROWS = 8_192  # of a piece
MOST_BYTES = 64 << 20
_REFUSED_BYTES = 1 << 30  # of a piece
_KEPT_FOOTERS = 16


def rows_per_piece(footer: Footer, group: int) -> int:
    """Return the number of rows per piece of a row group, which is known from the footer."""
    return min(MOST_ROWS, rows_within(footer.metadata, group, MOST_BYTES))


def _bounded(batches: Iterator[pa.RecordBatch], group: int, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches while those of a piece fit in memory: texts of a dictionary may be longer than the footer says."""
    first = 0
    size = 0
    for batch in batches:
        after = first + batch.num_rows
        size = batch.nbytes + (size if first // rows == after // rows else 0)
        if size > _REFUSED_BYTES:
            raise NotParquet(
                f"row group {group}: its rows {after // rows * rows:,} to {after - 1:,} take more than "
                f"{_REFUSED_BYTES >> 20:,} MiB when they are unpacked; write the file again with smaller row groups"
            )
        yield batch
        first = after


class RowGroupUnpacker(Maker):
    """Makes pieces of row groups; the range of an input is that of a row group.

    Args:
        ranges: Reads the files by ranges.
        columns: Columns to keep; None for all.
        metadata: Folder of the metadata cache.
    """

    def __init__(self, ranges: Ranges, columns: Sequence[str] | None, metadata: Path) -> None:
        self._ranges = ranges
        self._columns = columns
        self._metadata = metadata
        self._footers = MetadataFinder(FOOTER, ranges, metadata, _KEPT_FOOTERS)
        digest = hashlib.sha256("\n".join(columns or ()).encode()).hexdigest()[:8]
        self.name = f"rows-2-{digest}" if columns is not None else "rows-2"

    def __reduce__(self) -> tuple[object, ...]:
        return RowGroupUnpacker, (self._ranges, self._columns, self._metadata)

    def make(self, path: str, within: ByteRange | None) -> Iterator[Piece]:
        footer = self._footers.get(path)
        assert within is not None
        group = footer.byte_ranges.index(within)
        rows = rows_per_piece(footer, group)
        batches = _bounded(row_batches(self._ranges, path, footer, group, self._columns), group, rows)
        return map(table_bytes, cut(batches, rows))

    def inputs(self, path: str, within: ByteRange | None) -> Sequence[Extent]:
        footer = self._footers.get(path)
        assert within is not None
        start, end = within
        units = footer.units_of(footer.byte_ranges.index(within))
        return [
            self._ranges.extent(path, unit, footer.file_size, max(start, unit[0]), min(end, unit[1])) for unit in units
        ]

    def expected_size(self, path: str, within: ByteRange | None, number: int) -> int:
        footer = self._footers.get(path)
        assert within is not None
        group = footer.byte_ranges.index(within)
        row_group = footer.metadata.row_group(group)
        rows = rows_per_piece(footer, group)
        own = min(rows, row_group.num_rows - number * rows)
        return int(row_group.total_byte_size * own // max(1, row_group.num_rows))


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
