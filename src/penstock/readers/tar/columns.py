"""The files of a compiled manifest as views of memory maps. Knows their layout; knows nothing of their use."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.manifest.checked import BLOCK_BYTES, CheckedFile, CheckedRows
from penstock.manifest.errors import ManifestError
from penstock.manifest.idhash import string_buffers
from penstock.manifest.sealed import SealedFolder

_SECONDS_BITS = (BLOCK_BYTES // 4).bit_length() - 1  # rows of seconds, 4 bytes each, in a block that is checked whole


@dataclass(frozen=True)
class MemberColumns:
    """The members of all items; those of item i are ``starts[i]`` … ``starts[i + 1] - 1`` of the other columns.

    ``sha256`` has shape (n, 32), or is None if it was not computed.
    """

    starts: NDArray[np.int64]
    ext: NDArray[np.uint16]
    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    crc: NDArray[np.uint32]
    sha256: NDArray[np.uint8] | None


@dataclass(frozen=True)
class ManifestColumns:
    """Views of the mapped files. The columns of shards and groups are checked already.

    Call ``used.use(rows)`` before you read rows of items, ``used_seconds.use(rows)`` before you read nothing but their
    seconds, and ``check_hashes`` before you read rows of hashes.
    """

    shards: pa.RecordBatch
    source: NDArray[np.int32]
    shard: NDArray[np.int32]
    count: NDArray[np.int32]
    id_starts: NDArray[np.int64]
    id_data: NDArray[np.uint8]
    seconds: NDArray[np.float32]
    members: MemberColumns | None
    fields: tuple[NDArray[np.int64], NDArray[np.uint8]] | None
    file: NDArray[np.int32] | None
    hash: NDArray[np.uint64]
    hashed_row: NDArray[np.int64]
    used: CheckedRows
    used_seconds: CheckedRows
    id_file: CheckedFile

    @staticmethod
    def open(folder: SealedFolder, indexed: bool) -> "ManifestColumns":
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
        seconds = in_place(items.column("seconds"))
        members = _member_columns(items.column("members")) if indexed else None
        fields = string_buffers(items.column("fields")) if "fields" in items.schema.names else None
        file = in_place(items.column("file")) if "file" in items.schema.names else None

        def check(first: int, after: int) -> None:
            item_file.check_array(seconds[first:after])
            _check_lists(item_file, id_starts[first : after + 1], id_data)
            if members is not None:
                values = (members.ext, members.offset, members.size, members.crc, members.sha256)
                known = [each for each in values if each is not None]
                _check_lists(item_file, members.starts[first : after + 1], *known)
            if fields is not None:
                _check_lists(item_file, fields[0][first : after + 1], fields[1])
            if file is not None:
                item_file.check_array(file[first:after])

        return ManifestColumns(
            shards,
            source,
            shard,
            count,
            id_starts,
            id_data,
            seconds,
            members,
            fields,
            file,
            in_place(ids.column("hash")),
            in_place(ids.column("row")),
            CheckedRows(items.num_rows, check),
            CheckedRows(
                items.num_rows, lambda first, after: item_file.check_array(seconds[first:after]), _SECONDS_BITS
            ),
            id_file,
        )

    def check_hashes(self, first: int, after: int) -> None:
        """Check rows of ``hash`` and ``hashed_row``."""
        self.id_file.check_array(self.hash[first:after])
        self.id_file.check_array(self.hashed_row[first:after])


def _check_lists(file: CheckedFile, starts: NDArray[np.int64], *values: NDArray[Any]) -> None:
    file.check_array(starts)
    for each in values:
        file.check_array(each[starts[0] : starts[-1]])


def _whole(file: CheckedFile) -> pa.RecordBatch:
    """Return the contents of a file after checking all of it."""
    file.check(0, len(file.memory))
    return _batch(file)


def _outline(file: CheckedFile) -> pa.RecordBatch:
    """Return the contents of a file after checking its beginning and end only, which say where its columns lie."""
    file.check(0, 1)
    file.check(len(file.memory) - BLOCK_BYTES, len(file.memory))
    return _batch(file)


def _batch(file: CheckedFile) -> pa.RecordBatch:
    return pa.ipc.open_file(pa.BufferReader(pa.py_buffer(file.memory))).get_batch(0)


def _member_columns(column: pa.LargeListArray) -> MemberColumns:
    ext, offset, size, crc = (in_place(column.values.field(name)) for name in ("ext", "offset", "size", "crc"))
    hashed = column.values.type.get_field_index("sha256") >= 0
    sha256 = _digests(column.values.field("sha256")) if hashed else None
    return MemberColumns(in_place(column.offsets), ext, offset, size, crc, sha256)


def _digests(column: pa.FixedSizeBinaryArray) -> NDArray[np.uint8]:
    """Return digests as a view, shape (n, 32)."""
    width = column.type.byte_width
    data = np.frombuffer(column.buffers()[1], np.uint8).reshape(-1, width)
    return data[column.offset : column.offset + len(column)]


def in_place(numbers: pa.Array) -> NDArray[Any]:
    """Return numbers without nulls as a view. ``to_numpy`` would import pandas if it is installed: 30 MB."""
    return np.from_dlpack(numbers)
