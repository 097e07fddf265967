"""The footer of a Parquet file: where its row groups lie. Reads by ranges; knows nothing of the columns' meaning."""

import struct
from collections.abc import Container
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.plan.draws import Ints
from penstock.readers.errors import first_line
from penstock.readers.metadata import MetadataKind
from penstock.readers.ranges import Search
from penstock.store.blob import ByteRange

_MAGIC = b"PAR1"
_END = struct.Struct("<I4s")
_TAIL_BYTES = 64 << 10  # read first: the footer of most files fits
_SIZE = struct.Struct("<Q")


class NotParquet(ValueError):
    """The bytes are no Parquet file, or a damaged one."""


def find_footer(size: int) -> Search["Footer"]:
    """Search a file for its footer: see ``Ranges.follow``.

    Returns:
        The footer.

    Raises:
        NotParquet: If this is no Parquet file, or it is truncated.
    """
    start = _tail_of(size)
    tail = yield (start, size)
    if len(tail) < _END.size + len(_MAGIC):
        raise NotParquet("it is too short for a Parquet file")
    length, magic = _END.unpack(tail[-_END.size :])
    if magic != _MAGIC:
        raise NotParquet("it does not end as a Parquet file does: it is truncated, or no Parquet file")
    first = size - _END.size - length
    if first < len(_MAGIC):
        raise NotParquet(f"its footer has {length} bytes, and the file {size}")
    if first >= start:
        return Footer(size, bytes(tail[first - start : -_END.size]))
    rest = yield (first, start)
    return Footer(size, bytes(rest) + bytes(tail[: -_END.size]))


@dataclass(frozen=True)
class Footer:
    """The footer of a file.

    Attributes:
        file_size: Size of the file in bytes.
        data: Bytes of the footer.
    """

    file_size: int
    data: bytes

    @cached_property
    def metadata(self) -> pq.FileMetaData:
        """The parsed footer.

        Raises:
            NotParquet: If it is damaged.
        """
        whole = _MAGIC + self.data + _END.pack(len(self.data), _MAGIC)
        try:
            return pq.read_metadata(pa.BufferReader(whole))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise NotParquet(f"its footer is damaged: {first_line(error)}") from None

    def parsed(self) -> "Footer":
        """Return the footer itself, parsed.

        Raises:
            NotParquet: If it is damaged.
        """
        _ = self.metadata
        return self

    @cached_property
    def columns(self) -> frozenset[str]:
        """The names of the columns.

        Raises:
            NotParquet: If the footer is damaged.
        """
        try:
            return frozenset(self.metadata.schema.to_arrow_schema().names)
        except (pa.ArrowException, ValueError) as error:
            raise NotParquet(f"its footer is damaged: {first_line(error)}") from None

    @cached_property
    def first_rows(self) -> Ints:
        """The first row of each row group, and the number of rows of the file."""
        counts = [self.metadata.row_group(number).num_rows for number in range(self.metadata.num_row_groups)]
        return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])

    def rows_of(self, group: int) -> int:
        """Return the number of rows of a row group."""
        return int(self.first_rows[group + 1] - self.first_rows[group])

    def groups_of(self, start: int, stop: int) -> range:
        """Return the row groups that hold rows ``start`` to ``stop - 1``."""
        first = int(self.first_rows.searchsorted(start, side="right")) - 1
        last = int(self.first_rows.searchsorted(stop, side="left"))
        return range(first, last)

    @cached_property
    def byte_ranges(self) -> tuple[ByteRange, ...]:
        """The bytes of each row group, with all of its columns.

        Raises:
            NotParquet: If they do not lie in the file.
        """
        return tuple(map(self._byte_range, range(self.metadata.num_row_groups)))

    def column_ranges(self, group: int, columns: Container[str]) -> list[ByteRange]:
        """Return the bytes of some columns of a row group, each by the path of its leaf."""
        row_group = self.metadata.row_group(group)
        chunks = [row_group.column(number) for number in range(row_group.num_columns)]
        own = [(_first_byte(each), each.total_compressed_size) for each in chunks if each.path_in_schema in columns]
        return [(start, start + size) for start, size in own if size and start + size <= self.file_size]

    def units_of(self, group: int) -> tuple[ByteRange, ...]:
        """Return the units of the cache that hold a row group: its bytes, and the file's end if they overlap it."""
        start, end = self.byte_ranges[group]
        tail = _tail_of(self.file_size)
        own = ((start, min(end, tail)),) if start < tail else ()
        return (*own, (tail, self.file_size)) if end > tail else own

    @cached_property
    def units(self) -> tuple[ByteRange, ...]:
        """The units of all row groups, in order."""
        units = (unit for group in range(self.metadata.num_row_groups) for unit in self.units_of(group))
        return tuple(dict.fromkeys(units))

    def _byte_range(self, group: int) -> ByteRange:
        row_group = self.metadata.row_group(group)
        columns = [row_group.column(number) for number in range(row_group.num_columns)]
        start = min(map(_first_byte, columns), default=0)
        end = max((_first_byte(column) + column.total_compressed_size for column in columns), default=0)
        if not 0 < start < end <= self.file_size:
            raise NotParquet(f"row group {group} is said to be bytes {start} to {end} of {self.file_size}")
        return start, end


def _tail_of(size: int) -> int:
    """Return the first byte of the end of a file, which is read first."""
    return max(0, size - _TAIL_BYTES)


def _first_byte(column: pq.ColumnChunkMetaData) -> int:
    pages = (column.dictionary_page_offset, column.data_page_offset)
    return int(min((page for page in pages if page), default=0))  # None or 0: there is no dictionary


def _to_bytes(footer: Footer) -> bytes:
    return _SIZE.pack(footer.file_size) + footer.data


def _from_bytes(data: memoryview) -> Footer:
    [size] = _SIZE.unpack_from(data)
    return Footer(size, bytes(data[_SIZE.size :]))


FOOTER = MetadataKind("footer of a table 1", find_footer, _to_bytes, _from_bytes)
"""Footers as metadata, cached on disk."""
