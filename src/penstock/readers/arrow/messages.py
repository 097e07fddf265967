"""Messages of Arrow's format: where record batches lie, found by ranges. Knows no column's meaning.

file      ARROW1 | schema | batch | batch | … | end | footer
stream             schema | batch | batch | … | end, or nothing
message   FFFFFFFF | length of the metadata | metadata, which has the length of the body | body
"""

import struct
from typing import NamedTuple

import pyarrow as pa

from penstock.readers.metadata import MetadataKind
from penstock.readers.ranges import Search

MAGIC = b"ARROW1"
PREFIX = struct.Struct("<II")  # the mark of a message, the length of its metadata
_MARK = 0xFFFFFFFF
_FILE_START = 8  # bytes of a file before its messages
_FILE_END = struct.Struct("<I6s")  # the length of the footer, and the magic
_BEGINNING_BYTES = 64 << 10  # read first: the schema of most files fits
_SCHEMA = 1  # kinds of messages
_BATCH = 3
_HEAD = struct.Struct("<QQQ")


class NotArrow(ValueError):
    """The bytes are not in Arrow's format, or are damaged."""


class Head(NamedTuple):
    """The schema of a file, and where its messages lie.

    Attributes:
        size: Size of the file in bytes.
        first: First byte of the message after the schema.
        end: Byte after the last message, where the footer or nothing follows.
        schema: Message with the schema; empty if record batches can't be read by themselves.
    """

    size: int
    first: int
    end: int
    schema: bytes


class BatchMessage(NamedTuple):
    """A record batch.

    Attributes:
        size: Size of the message with its body in bytes.
        rows: Number of rows.
        body: First byte of the body, counted from that of the message.
        is_compressed: Whether the buffers are compressed.
    """

    size: int
    rows: int
    body: int
    is_compressed: bool


def find_head(size: int) -> Search[Head]:
    """Search a file for its schema: see ``Ranges.follow``."""
    nothing = Head(size, 0, 0, b"")
    data = yield (0, min(size, _BEGINNING_BYTES))
    start = _FILE_START if bytes(data[: len(MAGIC)]) == MAGIC else 0
    if len(data) < start + PREFIX.size:
        return nothing
    mark, length = PREFIX.unpack_from(data, start)
    first = start + PREFIX.size + length
    if mark != _MARK or first > size:
        return nothing
    if first > len(data):
        data = yield (0, first)
    schema = bytes(data[start:first])
    end = size
    if start:
        tail = yield (size - _FILE_END.size, size)
        length, magic = _FILE_END.unpack(tail)
        end = size - _FILE_END.size - length
        if magic != MAGIC or end < first:
            return nothing
    return Head(size, first, end, schema) if _stands_alone(schema) else nothing


def metadata_end(prefix: memoryview) -> int:
    """Return the size of a message up to the end of its metadata; 0 after the last message.

    Raises:
        NotArrow: If no message begins here.
    """
    mark, length = PREFIX.unpack(prefix)
    if mark != _MARK:
        raise NotArrow("there is no record batch")
    return PREFIX.size + length if length else 0


def batch_message(data: memoryview) -> BatchMessage:
    """Parse the prefix and the metadata of a message.

    Raises:
        NotArrow: If it is no record batch.
    """
    try:
        root, kind, header = _table(data)
        if kind != _BATCH:
            raise NotArrow(f"there is a message of kind {kind}, and no record batch")
        body = _number("<q", data, _field(data, root, 3))
        rows = _number("<q", data, _field(data, header, 0))
        is_compressed = _field(data, header, 3) > 0
    except struct.error:
        raise NotArrow("the metadata of a record batch is damaged") from None
    if body < 0 or rows < 0:
        raise NotArrow(f"there is a record batch of {rows} rows and {body} bytes")
    return BatchMessage(len(data) + body, rows, len(data), is_compressed)


def _stands_alone(schema: bytes) -> bool:
    """Return whether a record batch can be read with nothing but this schema, on this machine."""
    data = memoryview(schema)
    try:
        _, kind, header = _table(data)
        is_big_endian = _number("<h", data, _field(data, header, 0)) == 1
        has_dictionary = any(map(_has_dictionary, pa.ipc.read_schema(pa.py_buffer(schema))))
    except (struct.error, pa.ArrowException, OSError, ValueError):
        return False
    return kind == _SCHEMA and not is_big_endian and not has_dictionary


def _has_dictionary(field: pa.Field) -> bool:
    """Return whether a field, or one nested in it, has a dictionary.

    Raises:
        UnicodeDecodeError: If a name is damaged.
    """
    field.name  # noqa: B018  # is decoded here
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    inner = (kind.field(number) for number in range(kind.num_fields))
    return pa.types.is_dictionary(kind) or any(map(_has_dictionary, inner))


# The metadata is a flatbuffer. A table begins with the distance back to its layout; the layout has the sizes of itself
# and of the table, and then for each field where it lies in the table, 0 if it is left out.


def _table(data: memoryview) -> tuple[int, int, int]:
    """Return the position of a message's table, the kind of its header, and the position of the header."""
    root = PREFIX.size + _number("<I", data, PREFIX.size)
    header = _field(data, root, 2)
    return root, _number("<B", data, _field(data, root, 1)), header + _number("<I", data, header)


def _field(data: memoryview, table: int, number: int) -> int:
    """Return the position of a field of a table; 0 if it is absent."""
    layout = table - _number("<i", data, table)
    at = 4 + 2 * number
    offset = _number("<H", data, layout + at) if at < _number("<H", data, layout) else 0
    return table + offset if offset else 0


def _number(form: str, data: memoryview, at: int) -> int:
    """Return a number; 0 for an absent field."""
    if at < 0:
        raise struct.error
    return int(struct.unpack_from(form, data, at)[0]) if at else 0


def _to_bytes(head: Head) -> bytes:
    return _HEAD.pack(head.size, head.first, head.end) + head.schema


def _from_bytes(data: memoryview) -> Head:
    size, first, end = _HEAD.unpack_from(data)
    return Head(size, first, end, bytes(data[_HEAD.size :]))


HEAD = MetadataKind("head of an Arrow file 1", find_head, _to_bytes, _from_bytes)
"""Heads as metadata, cached on disk."""
