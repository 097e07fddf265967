"""What a compiled manifest looks like on disk, shared by its writer and its reader.

    OUT/manifest.json   version, fingerprint, sources with item counts and microseconds, extensions, indexed
    OUT/shards.arrow    path, size, version                  sorted by path
    OUT/groups.arrow    source, shard, first, count          sorted by (source, shard); rows first … first + count
    OUT/items.arrow     id, seconds[, members]               a group's items are contiguous rows
    OUT/ids.arrow       hash, row                            sorted by hash: the index behind ``find``

Every Arrow file holds one record batch, so that taking rows costs what is taken, and columns are views of the map.
"""

from typing import NamedTuple

import pyarrow as pa

VERSION = 1
MAX_GROUP = 8_192

MEMBER = pa.struct([("ext", pa.uint16()), ("offset", pa.int64()), ("size", pa.int64()), ("crc", pa.uint32())])
SHARDS = pa.schema([("path", pa.large_string()), ("size", pa.int64()), ("version", pa.string())])
GROUPS = pa.schema([("source", pa.int32()), ("shard", pa.int32()), ("first", pa.int64()), ("count", pa.int32())])
ITEMS = pa.schema([("id", pa.large_string()), ("seconds", pa.float32())])
INDEXED_ITEMS = ITEMS.append(pa.field("members", pa.large_list(MEMBER)))
IDS = pa.schema([("hash", pa.uint64()), ("row", pa.int64())])


class Shard(NamedTuple):
    """One object of the store; size and version are known only to an indexed manifest."""

    path: str
    size: int | None
    version: str | None


class Member(NamedTuple):
    """One file of a sample: where its bytes lie in the shard, and their CRC-32 if it is known."""

    ext: str
    offset: int
    size: int
    crc: int | None
