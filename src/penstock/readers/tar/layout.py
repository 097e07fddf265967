"""The files of a compiled manifest on disk, shared by its writer and its reader.

    OUT/manifest.json   version, sources with fingerprint, microseconds and digest of durations, extensions, indexed, …
    OUT/shards.arrow    path, size, version                  sorted by path
    OUT/groups.arrow    source, shard, count                 sorted by (source, shard)
    OUT/items.arrow     id, seconds[, members][, fields][, file]   a group's items are contiguous rows
    OUT/ids.arrow       hash, row                            sorted by hash: the index behind ``find``
    OUT/checksums.bin   of every block of the files above; see ``manifest.sealed``

Of loose files, ``file`` is the row of an item's file in shards.arrow, and the ``shard`` of a group is the row of their
folder, which has no size and no version.

Every Arrow file holds one record batch: columns are views of the memory map, and only the rows that are used are read.
"""

from typing import NamedTuple

import pyarrow as pa

VERSION = 3
MAX_GROUP = 8_192  # items
MAX_LOOSE_GROUP = 512  # items that are loose files: `pool: auto` then mixes 65,536 of them
SEGMENT = "@segment"  # field with the start and the duration, in seconds, of an item that is a part of its sound file

MEMBER = pa.struct([("ext", pa.uint16()), ("offset", pa.int64()), ("size", pa.int64()), ("crc", pa.uint32())])
HASHED_MEMBER = pa.struct([*MEMBER, ("sha256", pa.binary(32))])
SHARDS = pa.schema([("path", pa.large_string()), ("size", pa.int64()), ("version", pa.string())])
GROUPS = pa.schema([("source", pa.int32()), ("shard", pa.int32()), ("count", pa.int32())])
ITEMS = pa.schema([("id", pa.large_string()), ("seconds", pa.float32())])
IDS = pa.schema([("hash", pa.uint64()), ("row", pa.int64())])


class Shard(NamedTuple):
    """One object of the store. Size and version are None if the manifest is not indexed.

    The version of a local file is its ``LocalBlob.stamp``, which no other file ever has.
    """

    path: str
    size: int | None
    version: str | None


class Member(NamedTuple):
    """One file of a sample: where its bytes lie in the shard, and their CRC-32 or None if it is not known."""

    ext: str
    offset: int
    size: int
    crc: int | None
