"""Memory that rows of a Parquet file take, estimated from its footer before they are unpacked.

A file of some kilobytes can hold gigabytes: long runs of one value, or of one byte, take next to nothing in the format.
Rows are therefore unpacked some at a time, and what can't be divided is refused.
"""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import pyarrow.parquet as pq

from penstock.readers.parquet.footer import NotParquet

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}  # of a value
_TEXT = "BYTE_ARRAY"
_OFFSET_BYTES = 4  # of a text
_PLACE_BYTES = 16  # of a row, in an index
_BOMB_BYTES = 1 << 30  # unpacked, below which nothing is refused
_BOMB_RATIO = 500  # of unpacked bytes to those in the file; that of text is below 20
_HEAD_BYTES = 32  # of a page: kind, sizes and number of values lie in these
_DICTIONARY_HEAD = b"\x15\x04"  # Thrift: field 1, the kind of a page, is 2, a dictionary
_INTEGER = 0x5  # the type of a field in Thrift


ReadBytes = Callable[[int, int], bytes]
"""Returns bytes of the file from the first number to the second (exclusive)."""


def refuse_bomb(
    metadata: pq.FileMetaData,
    file_size: int,
    group: int,
    columns: Collection[str] | None = None,
    read: ReadBytes | None = None,
) -> None:
    """Refuse a row group that would fill the memory.

    Args:
        metadata: Footer of the file.
        file_size: Size of the file in bytes.
        group: Number of the row group.
        columns: Columns that are read, each by its name or the path of its leaf; None for all.
        read: Reads the heads of dictionaries. If None, a text counts once, however many values repeat it.

    Raises:
        NotParquet: If its values take far more bytes than can be in the file.
    """
    rows = metadata.row_group(group).num_rows
    unpacked = _unpacked_bytes(metadata, group, columns) + rows * _PLACE_BYTES
    if read is not None:
        for chunk, dictionary in _dictionaries(metadata, group, columns, read):
            unpacked += int(chunk.num_values) * dictionary.size // max(1, dictionary.values)
    if unpacked <= _BOMB_BYTES:
        return
    packed = min(file_size, sum(each.total_compressed_size for each in _chunks(metadata, group, None)))
    if unpacked > _BOMB_RATIO * packed:
        raise NotParquet(
            f"row group {group} is said to take {unpacked / 1e9:.1f} GB in memory ({rows:,} rows), and has "
            f"{packed:,} bytes in the file: it is damaged, or made to fill the memory"
        )


def rows_within(metadata: pq.FileMetaData, group: int, most_bytes: int) -> int:
    """Return the number of rows of average size that take some bytes; at least one."""
    return int(max(1, most_bytes * metadata.row_group(group).num_rows // max(1, _unpacked_bytes(metadata, group))))


def surely_within(
    metadata: pq.FileMetaData,
    group: int,
    most_bytes: int,
    columns: Collection[str] | None,
    read: ReadBytes,
) -> int:
    """Return the number of rows that take at most some bytes even if every text is the longest; at least one.

    Args:
        metadata: Footer of the file.
        group: Number of the row group.
        most_bytes: Maximum number of bytes.
        columns: Columns that are read; None for all.
        read: Reads the heads of dictionaries.
    """
    total = _unpacked_bytes(metadata, group, columns)
    for chunk, dictionary in _dictionaries(metadata, group, columns, read):
        total += int(chunk.num_values) * dictionary.size
    return int(max(1, most_bytes * metadata.row_group(group).num_rows // max(1, total)))


def _chunks(metadata: pq.FileMetaData, group: int, columns: Collection[str] | None) -> list[pq.ColumnChunkMetaData]:
    row_group = metadata.row_group(group)
    chunks = [row_group.column(number) for number in range(row_group.num_columns)]
    return [each for each in chunks if columns is None or _is_of(each.path_in_schema, columns)]


def _is_of(leaf: str, columns: Collection[str]) -> bool:
    return leaf in columns or any(leaf.startswith(f"{each}.") for each in columns)


def _unpacked_bytes(metadata: pq.FileMetaData, group: int, columns: Collection[str] | None = None) -> int:
    sizes = [
        max(each.total_uncompressed_size, each.num_values * _WIDTHS.get(each.physical_type, _OFFSET_BYTES))
        for each in _chunks(metadata, group, columns)
    ]
    return int(sum(sizes))


class _Dictionary(NamedTuple):
    """Head of a dictionary: bytes and number of its texts."""

    size: int
    values: int


def _dictionaries(
    metadata: pq.FileMetaData, group: int, columns: Collection[str] | None, read: ReadBytes
) -> Iterator[tuple[pq.ColumnChunkMetaData, _Dictionary]]:
    """Yield the columns of text that have a dictionary, with its head."""
    for chunk in _chunks(metadata, group, columns):
        start = chunk.dictionary_page_offset
        if chunk.physical_type == _TEXT and start:
            head = read(start, start + min(_HEAD_BYTES, chunk.total_compressed_size))
            yield chunk, _dictionary(head) or _Dictionary(int(chunk.total_uncompressed_size), int(chunk.num_values))


def _dictionary(head: bytes) -> _Dictionary | None:
    """Parse the head of a dictionary: fields 2 (size) and 7 (number of values). None for another head."""
    if not head.startswith(_DICTIONARY_HEAD):
        return None
    sizes = []
    at = len(_DICTIONARY_HEAD)
    while at < len(head) and head[at] & 0xF == _INTEGER:  # sizes, unpacked and packed, and perhaps a checksum
        number, at = _integer(head, at + 1)
        sizes.append(number)
    if not sizes or at + 1 >= len(head) or head[at + 1] & 0xF != _INTEGER:
        return None
    values, _ = _integer(head, at + 2)
    return _Dictionary(sizes[0], values)


def _integer(head: bytes, at: int) -> tuple[int, int]:
    """Return a number in Thrift's encoding, and the position after it."""
    number = 0
    for place, byte in enumerate(head[at:]):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return number >> 1, at + place + 1  # zigzag: the lowest bit is the sign
    return 0, len(head)
