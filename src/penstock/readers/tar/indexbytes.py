"""The index of a shard as bytes, and back. Knows nothing of where the bytes are kept."""

import json

import pyarrow as pa

from penstock.readers.tar.columns import in_place
from penstock.readers.tar.shardindex import Places, TarIndex

KIND = "tar index 1"
"""Names the format. Bytes of another format are not passed to ``index_from``."""

_MEMBER = pa.struct([("ext", pa.uint16()), ("offset", pa.int64()), ("size", pa.int64())])


def index_bytes(index: TarIndex) -> memoryview:
    """Return an index as bytes."""
    columns = (index.places.ext, index.places.offset, index.places.size)
    places = pa.StructArray.from_arrays([pa.array(column) for column in columns], fields=[*_MEMBER])
    members = pa.LargeListArray.from_arrays(pa.array(index.starts), places)
    batch = pa.RecordBatch.from_arrays([index.keys, members], names=["key", "members"])
    batch = batch.replace_schema_metadata({"extensions": json.dumps(index.places.extensions)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def index_from(data: memoryview, shard: str) -> TarIndex:
    """Return the index of a shard from what ``index_bytes`` returned: nothing is checked here."""
    batch = pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()
    members = batch.column("members")
    ext, offset, size = (in_place(members.values.field(name)) for name in ("ext", "offset", "size"))
    places = Places(tuple(json.loads(batch.schema.metadata[b"extensions"])), ext, offset, size)
    return TarIndex.from_columns(shard, batch.column("key"), in_place(members.offsets), places)
