"""Indexes of shards on disk, so that they outlive the process and the shard's place in the cache.

The name of a file depends on path and version of the shard. A file appears by rename and begins with a checksum of the
rest. A file that is damaged, or of another shard or release, is treated as missing.
"""

import hashlib
import json
import zlib
from pathlib import Path

import pyarrow as pa

from penstock.manifest.publish import locked
from penstock.readers.tar.columns import in_place
from penstock.readers.tar.shardindex import Places, TarIndex
from penstock.runtime.aside import write_aside

_FORMAT = 1
_MEMBER = pa.struct([("ext", pa.uint16()), ("offset", pa.int64()), ("size", pa.int64())])


class Shelf:
    """A folder of shard indexes. Safe for any number of processes."""

    def __init__(self, folder: str | Path):
        self._folder = Path(folder)

    def get(self, shard: str, version: str) -> TarIndex | None:
        """Return the index of a shard, or None if there is none."""
        try:
            data = memoryview(self._path(shard, version).read_bytes())
        except FileNotFoundError:
            return None
        if len(data) < 4 or zlib.crc32(data[4:]) != int.from_bytes(data[:4], "little"):
            return None
        return _decode(data[4:], shard, _identity(shard, version))

    def put(self, version: str, index: TarIndex) -> None:
        """Keep the index of a version of a shard."""
        body = _encode(index, _identity(index.shard, version))
        self._folder.mkdir(parents=True, exist_ok=True)
        with locked(self._folder / ".lock"):
            write_aside(self._path(index.shard, version), [zlib.crc32(body).to_bytes(4, "little"), body])

    def _path(self, shard: str, version: str) -> Path:
        return self._folder / f"{hashlib.sha256(_identity(shard, version).encode()).hexdigest()[:32]}.index"


def _identity(shard: str, version: str) -> str:
    return json.dumps([_FORMAT, shard, version])


def _encode(index: TarIndex, identity: str) -> memoryview:
    columns = (index.places.ext, index.places.offset, index.places.size)
    places = pa.StructArray.from_arrays([pa.array(column) for column in columns], fields=[*_MEMBER])
    members = pa.LargeListArray.from_arrays(pa.array(index.starts), places)
    batch = pa.RecordBatch.from_arrays([index.keys, members], names=["key", "members"])
    batch = batch.replace_schema_metadata({"identity": identity, "extensions": json.dumps(index.places.extensions)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def _decode(body: memoryview, shard: str, identity: str) -> TarIndex | None:
    """Return the index, or None if it is of another shard. The checksum was right, so the data is complete."""
    batch = pa.ipc.open_stream(pa.py_buffer(body)).read_next_batch()
    facts = batch.schema.metadata
    if facts[b"identity"].decode() != identity:
        return None
    members = batch.column("members")
    ext, offset, size = (in_place(members.values.field(name)) for name in ("ext", "offset", "size"))
    places = Places(tuple(json.loads(facts[b"extensions"])), ext, offset, size)
    return TarIndex.from_columns(shard, batch.column("key"), in_place(members.offsets), places)
