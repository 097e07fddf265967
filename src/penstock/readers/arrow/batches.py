"""Consecutive record batches in memory, read without a copy. Knows no column's meaning."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from penstock.readers.arrow.messages import PREFIX, BatchMessage, NotArrow, batch_message, metadata_end
from penstock.store.blob import ByteRange

BYTES = "bytes"  # of media: the field beside which others say whether there is one

_OBJECT_ROWS = 1_024  # that become objects at a time

Fetch = Callable[[Iterable[ByteRange]], None]


def read_batches(data: pa.Buffer, schema: pa.Schema) -> pa.Table:
    """Read record batches, and check them.

    Raises:
        NotArrow: If they are damaged.
    """
    source = pa.BufferReader(data)
    batches = []
    while source.tell() < data.size:
        batches.append(_batch(source, schema))
    return check(_table(batches, schema))


def read_without_bytes(data: pa.Buffer, schema: pa.Schema, leave_out: Sequence[str], fetch: Fetch) -> pa.Table | None:
    """Read record batches without fetching the bytes of media, and check them.

    Args:
        data: Bytes of the batches. What was not fetched yet is zeros.
        schema: Schema of the batches.
        leave_out: Columns of media.
        fetch: Fetches ranges of the data.

    Returns:
        The table without the bytes of media; None if there are no such columns, or the batches are compressed.

    Raises:
        NotArrow: If they are damaged.
    """
    if not any(field.name in leave_out and _has_bytes_field(field.type) for field in schema):
        return None
    batches = []
    needed: list[ByteRange] = []
    for at, message in _messages(data, fetch):
        if message.is_compressed:
            return None
        batch = _batch(data[at : at + message.size], schema)
        own = list(_places(batch, leave_out, data.address))
        if any(start < at + message.body or end > at + message.size for start, end in own):
            return None  # pyarrow has copied what is not aligned
        batches.append(batch)
        needed += own
    fetch(needed)
    return check(without_bytes(_table(batches, schema), leave_out))


def without_bytes(table: pa.Table, leave_out: Sequence[str]) -> pa.Table:
    """Return a table whose columns of media have no bytes. Rows without a medium are still null."""
    for at, field in enumerate(table.schema):
        if field.name in leave_out and _has_bytes_field(field.type):
            others = [number for number, each in enumerate(field.type) if each.name != BYTES]
            chunks = [_struct(chunk, others) for chunk in table.column(at).chunks]
            kind = pa.struct([field.type.field(number) for number in others])
            table = table.set_column(at, field.name, pa.chunked_array(chunks, kind))
    return table


def _struct(column: pa.StructArray, numbers: Sequence[int]) -> pa.StructArray:
    """Return a column with some of its fields."""
    fields = [column.type.field(number) for number in numbers]
    own = [column.field(number) for number in numbers]
    return pa.StructArray.from_arrays(own, fields=fields, mask=column.is_null())


def check(table: pa.Table) -> pa.Table:
    """Validate all rows of a table, and return it. Reading a row with a wrong offset could crash the process.

    Raises:
        NotArrow: If they are damaged.
    """
    try:
        table.validate(full=True)
    except pa.ArrowException as error:
        raise NotArrow(str(error)) from None
    return table


def to_records(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows of a checked table.

    Raises:
        NotArrow: If they have a value that Python has no object for, such as a date after the year 9999.
    """
    try:
        for batch in table.to_batches(max_chunksize=_OBJECT_ROWS):
            yield from batch.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise NotArrow(str(error)) from None


def _has_bytes_field(kind: pa.DataType) -> bool:
    """Return whether a column is a struct with the bytes of media and other fields."""
    if not isinstance(kind, pa.StructType) or kind.num_fields < 2 or kind.get_field_index(BYTES) < 0:
        return False
    own = kind.field(BYTES).type
    return bool(pa.types.is_binary(own) or pa.types.is_large_binary(own))


def _messages(data: pa.Buffer, fetch: Fetch) -> Iterator[tuple[int, BatchMessage]]:
    """Yield the first byte of each message, and the message."""
    view = memoryview(data)
    at = 0
    while at < data.size:
        fetch([(at, min(at + PREFIX.size, data.size))])
        body = at + metadata_end(view[at : at + PREFIX.size])
        fetch([(at, min(body, data.size))])
        message = batch_message(view[at:body])
        yield at, message
        at += message.size


def _batch(source: pa.BufferReader | pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    try:
        return pa.ipc.read_record_batch(pa.ipc.read_message(source), schema)
    except (pa.ArrowException, OSError, ValueError) as error:  # all from pyarrow: the bytes are in memory
        raise NotArrow(str(error)) from None


def _table(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return a table of batches. They are validated so far that it can be sliced safely."""
    try:
        for batch in batches:
            batch.validate()
    except pa.ArrowException as error:
        raise NotArrow(str(error)) from None
    return pa.Table.from_batches(batches, schema)


def _places(batch: pa.RecordBatch, leave_out: Sequence[str], address: int) -> Iterator[ByteRange]:
    """Yield the ranges of a batch's buffers, except those of the bytes of media."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        buffers = column.buffers()
        if field.name in leave_out and _has_bytes_field(field.type):
            own = [
                column.field(number).buffers()[: 2 if each.name == BYTES else None]
                for number, each in enumerate(field.type)
            ]
            buffers = [buffers[0], *(buffer for some in own for buffer in some)]
        for buffer in buffers:
            if buffer is not None and buffer.size:
                yield buffer.address - address, buffer.address - address + buffer.size
