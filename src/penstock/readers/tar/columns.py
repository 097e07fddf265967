"""The files of a compiled manifest as views of memory maps. Knows their layout; knows nothing of their use."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.manifest.checked import BLOCK_BYTES, CheckedFile, Column
from penstock.manifest.errors import ManifestError
from penstock.manifest.idhash import string_buffers
from penstock.manifest.sealed import SealedFolder


@dataclass(frozen=True)
class MemberColumns:
    """The members of all items; those of item i are ``starts[i]`` … ``starts[i + 1] - 1`` of the other columns."""

    starts: Column[np.int64]
    ext: Column[np.uint16]
    offset: Column[np.int64]
    size: Column[np.int64]
    crc: Column[np.uint32]


@dataclass(frozen=True)
class Columns:
    """Views of the mapped files. Those of groups and shards are checked now, those of items when they are used."""

    shards: pa.RecordBatch
    source: NDArray[np.int32]
    shard: NDArray[np.int32]
    count: NDArray[np.int32]
    id_starts: Column[np.int64]
    id_data: Column[np.uint8]
    seconds: Column[np.float32]
    members: MemberColumns | None
    hash: Column[np.uint64]
    hashed_row: Column[np.int64]

    @staticmethod
    def open(folder: SealedFolder, indexed: bool) -> "Columns":
        shards = _whole(folder.open("shards.arrow"))
        groups = _whole(folder.open("groups.arrow"))
        source, shard, count = (in_place(groups.column(name)) for name in ("source", "shard", "count"))
        item_file = folder.open("items.arrow")
        items = _outline(item_file)
        id_file = folder.open("ids.arrow")
        ids = _outline(id_file)
        if count.sum() != items.num_rows or ids.num_rows != items.num_rows:
            raise ManifestError(f"{folder.path}: its files do not match each other; make it again")
        id_starts, id_data = string_buffers(items.column("id"))
        return Columns(
            shards,
            source,
            shard,
            count,
            Column(item_file, id_starts),
            Column(item_file, id_data),
            Column(item_file, in_place(items.column("seconds"))),
            _member_columns(item_file, items.column("members")) if indexed else None,
            Column(id_file, in_place(ids.column("hash"))),
            Column(id_file, in_place(ids.column("row"))),
        )


def _whole(file: CheckedFile) -> pa.RecordBatch:
    """Return what is in a file, after all of it was checked."""
    file.check(0, len(file.memory))
    return _batch(file)


def _outline(file: CheckedFile) -> pa.RecordBatch:
    """Return what is in a file, after only its beginning and end were checked, which say where its columns lie."""
    file.check(0, 1)
    file.check(len(file.memory) - BLOCK_BYTES, len(file.memory))
    return _batch(file)


def _batch(file: CheckedFile) -> pa.RecordBatch:
    return pa.ipc.open_file(pa.BufferReader(pa.py_buffer(file.memory))).get_batch(0)


def _member_columns(file: CheckedFile, column: pa.LargeListArray) -> MemberColumns:
    fields = [in_place(column.values.field(name)) for name in ("ext", "offset", "size", "crc")]
    return MemberColumns(*(Column(file, values) for values in (in_place(column.offsets), *fields)))


def in_place(numbers: pa.Array) -> NDArray[Any]:
    """Return numbers without nulls as a view. ``to_numpy`` would import pandas if it is installed: 30 MB."""
    return np.from_dlpack(numbers)
