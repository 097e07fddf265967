"""Small Parquet files for the tests of this room."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def table_of(rows: int, seed: int = 0) -> pa.Table:
    """Columns of several kinds and sizes: one that compresses well, one of lists, one of long strings."""
    random = np.random.default_rng(seed)
    states = random.random((rows, 6), np.float32)
    return pa.table(
        {
            "index": np.arange(rows),
            "state": pa.FixedSizeListArray.from_arrays(states.ravel(), 6),
            "text": [f"row {row} " + "x" * (row % 7) for row in range(rows)],
            "blob": [random.bytes(300) for _ in range(rows)],
        }
    )


def parquet_bytes(table: pa.Table, groups: Sequence[int]) -> bytes:
    """A file with row groups of given sizes."""
    file = io.BytesIO()
    with pq.ParquetWriter(file, table.schema) as writer:
        first = 0
        for rows in groups:
            writer.write_table(table.slice(first, rows), row_group_size=max(1, rows))
            first += rows
    return file.getvalue()


def write_parquet(path: Path, rows: int, groups: Sequence[int]) -> bytes:
    data = parquet_bytes(table_of(rows), groups)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return data
