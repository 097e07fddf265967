"""Tables as pieces of the node cache, in Arrow's format. Knows no column's meaning."""

from collections.abc import Iterator

import pyarrow as pa

from penstock.store.cache.derived import Piece


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
