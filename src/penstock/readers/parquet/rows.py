"""Rows of a Parquet file whose bytes are read by ranges. Knows no column's meaning."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.readers.errors import first_line
from penstock.readers.parquet.footer import Footer, NotParquet
from penstock.readers.parquet.memory import refuse_bomb, surely_within
from penstock.readers.rangedfile import RangedFile
from penstock.readers.ranges import Ranges
from penstock.store.blob import ByteRange

_BATCH_ROWS = 256  # at a time, of a row group that is unpacked: rows may hold images
_BATCH_BYTES = 128 << 20  # at a time, at most, if each row has the longest text

_CLOSE_BYTES = 64 << 10  # between chunks of columns that are fetched together

_Read = Callable[[int, int], bytes]  # bytes of the file from the first number to the second (exclusive)


def read_row_groups(
    ranges: Ranges,
    path: str,
    footer: Footer,
    groups: Sequence[int],
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Read row groups; only bytes of the columns are read.

    Args:
        ranges: Reads the store by ranges.
        path: Path of the file.
        footer: Footer of the file.
        groups: Numbers of the row groups.
        columns: Columns to read; None for all.

    Raises:
        NotParquet: If the bytes are damaged.
    """
    file = _TableFile(footer.file_size, partial(_from_units, ranges, path, footer, footer.units))
    filled = [group for group in groups if footer.rows_of(group)]  # of an empty one pyarrow reads bytes elsewhere
    for group in filled:
        refuse_bomb(footer.metadata, footer.file_size, group, columns, file.bytes_at)
    with _damage(file, groups[0]):
        return _open(footer, file).read_row_groups(filled, columns=columns, use_threads=False)


def units_of_columns(footer: Footer, groups: Iterable[int], columns: Container[str]) -> list[ByteRange]:
    """Return units of the cache that hold some columns of row groups. Columns that lie close together are one unit.

    They suit columns that are small, and read once: of a unit of whole row groups a cache would fetch others with them.
    """
    units: list[ByteRange] = []
    for group in groups:
        for start, end in sorted(footer.column_ranges(group, columns)):
            if units and 0 <= start - units[-1][1] <= _CLOSE_BYTES:
                units[-1] = (units[-1][0], end)
            else:
                units.append((start, end))
    return units


def read_batches(
    ranges: Ranges,
    path: str,
    footer: Footer,
    group: int,
    columns: Sequence[str],
    units: Sequence[ByteRange],
    most_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Read some columns of a row group, some rows at a time; only bytes of the columns are read.

    Args:
        ranges: Reads the store by ranges.
        path: Path of the file.
        footer: Footer of the file.
        group: Number of the row group.
        columns: Columns to read.
        units: Units of the cache that hold the columns.
        most_rows: Maximum number of rows per batch.

    Raises:
        NotParquet: If the bytes are damaged, or would fill the memory.
    """
    file = _TableFile(footer.file_size, partial(_from_units, ranges, path, footer, units))
    if footer.rows_of(group):
        yield from _batches(footer, file, group, columns, most_rows)


def row_batches(
    ranges: Ranges, path: str, footer: Footer, group: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Read a row group some rows at a time. All of its bytes are read, and the file is closed, before the first.

    Raises:
        NotParquet: If the bytes are damaged, or would fill the memory.
    """
    within = footer.byte_ranges[group]
    parts = _parts(ranges, path, footer, footer.units, *within)
    data = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
    ranges.close()
    file = _TableFile(footer.file_size, lambda start, end: bytes(data[start - within[0] : end - within[0]]))
    yield from _batches(footer, file, group, columns, _BATCH_ROWS)


def _batches(
    footer: Footer, file: "_TableFile", group: int, columns: Sequence[str] | None, most_rows: int
) -> Iterator[pa.RecordBatch]:
    refuse_bomb(footer.metadata, footer.file_size, group, columns, file.bytes_at)
    rows = min(most_rows, surely_within(footer.metadata, group, _BATCH_BYTES, columns, file.bytes_at))
    with _damage(file, group):
        yield from _open(footer, file).iter_batches(rows, [group], columns=columns, use_threads=False)


def _open(footer: Footer, file: "_TableFile") -> pq.ParquetFile:
    return pq.ParquetFile(file, metadata=footer.metadata, pre_buffer=False)


@contextmanager
def _damage(file: "_TableFile", group: int) -> Iterator[None]:
    """Turn what pyarrow raises into ``NotParquet``: also ``OSError``, unless it comes from the store."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        if file.failure is not None:
            raise file.failure from None
        raise NotParquet(f"row group {group} can't be read: {first_line(error)}") from None


def _from_units(ranges: Ranges, path: str, footer: Footer, units: Sequence[ByteRange], start: int, end: int) -> bytes:
    found = b"".join(_parts(ranges, path, footer, units, start, end))
    return found if len(found) == end - start else bytes(ranges.read(path, (start, end), footer.file_size, start, end))


def _parts(
    ranges: Ranges, path: str, footer: Footer, units: Sequence[ByteRange], start: int, end: int
) -> list[memoryview]:
    """Return bytes of the file, one part per unit of the cache."""
    return [
        ranges.read(path, unit, footer.file_size, max(start, unit[0]), min(end, unit[1]))
        for unit in units
        if start < unit[1] and end > unit[0]
    ]


class _TableFile(RangedFile):
    """A file for pyarrow, of which only the bytes asked for are read.

    Attributes:
        failure: Exception of a read, if one failed.
    """

    def __init__(self, size: int, read: _Read) -> None:
        super().__init__(size)
        self.failure: Exception | None = None
        self._read = read

    def read(self, size: int = -1) -> bytes:
        start = self.at
        self.at = self.size if size < 0 else min(self.size, start + size)
        return self.bytes_at(start, self.at)

    def bytes_at(self, start: int, end: int) -> bytes:
        try:
            return self._read(start, end)
        except Exception as error:
            self.failure = error
            raise
