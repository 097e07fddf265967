"""The files of a compiled manifest as views of memory maps. Knows their layout; knows nothing of their use."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.manifest.errors import ManifestError
from penstock.manifest.idhash import string_buffers


@dataclass(frozen=True)
class MemberColumns:
    """The members of all items; those of item i are ``starts[i]`` … ``starts[i + 1] - 1`` of the other columns."""

    starts: NDArray[np.int64]
    ext: NDArray[np.uint16]
    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    crc: NDArray[np.uint32]


@dataclass(frozen=True)
class Columns:
    """Views of the mapped files."""

    shards: pa.RecordBatch
    source: NDArray[np.int32]
    shard: NDArray[np.int32]
    count: NDArray[np.int32]
    id_starts: NDArray[np.int64]
    id_data: memoryview
    seconds: NDArray[np.float32]
    members: MemberColumns | None
    hash: NDArray[np.uint64]
    hashed_row: NDArray[np.int64]

    @staticmethod
    def open(path: Path, indexed: bool) -> "Columns":
        shards, groups, items, ids = (_map(path / f"{name}.arrow") for name in ("shards", "groups", "items", "ids"))
        source, shard, count = (_view(groups, name) for name in ("source", "shard", "count"))
        if count.sum() != items.num_rows or ids.num_rows != items.num_rows:
            raise ManifestError(f"{path}: its files do not match each other; compile it again")
        id_starts, id_data = string_buffers(items.column("id"))
        return Columns(
            shards,
            source,
            shard,
            count,
            id_starts,
            id_data.data,
            _view(items, "seconds"),
            _member_columns(items.column("members")) if indexed else None,
            _view(ids, "hash"),
            _view(ids, "row"),
        )


def _map(path: Path) -> pa.RecordBatch:
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        if reader.num_record_batches != 1:
            raise pa.ArrowInvalid(f"{reader.num_record_batches} record batches where one was expected")
        return reader.get_batch(0)
    except (OSError, pa.ArrowInvalid) as error:
        raise ManifestError(f"{path}: not readable: {error}; compile the manifest again") from error


def _view(batch: pa.RecordBatch, name: str) -> NDArray[Any]:
    return in_place(batch.column(name))


def _member_columns(column: pa.LargeListArray) -> MemberColumns:
    fields = [in_place(column.values.field(name)) for name in ("ext", "offset", "size", "crc")]
    return MemberColumns(in_place(column.offsets), *fields)


def in_place(numbers: pa.Array) -> NDArray[Any]:
    """Return numbers without nulls as a view. ``to_numpy`` would import pandas if it is installed: 30 MB."""
    return np.from_dlpack(numbers)
