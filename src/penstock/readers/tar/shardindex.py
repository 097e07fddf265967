"""Where every sample of one shard lies, as a few arrays: about 60 bytes per sample, found by the hash of its key."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.manifest.idhash import hash_id, hash_ids
from penstock.readers.errors import ContentError
from penstock.readers.tar.columns import in_place
from penstock.readers.tar.layout import Member
from penstock.readers.tar.samples import TarSample, is_text

INDEX_KIND = "tar index 1"
"""Names the format of ``TarIndex.to_bytes``. Bytes of another format are not passed to ``from_bytes``."""

MAX_EXTENSIONS = 1 << 16  # their codes are uint16
_MEMBER = pa.struct([("ext", pa.uint16()), ("offset", pa.int64()), ("size", pa.int64())])


@dataclass(frozen=True)
class Places:
    """The members of a shard, by columns; ``ext`` is an index into ``extensions``."""

    extensions: tuple[str, ...]
    ext: NDArray[np.uint16]
    offset: NDArray[np.int64]
    size: NDArray[np.int64]

    @staticmethod
    def of(members: list[Member], shard: str) -> "Places":
        codes: dict[str, int] = {}
        for member in members:
            codes.setdefault(member.ext, len(codes))
        if len(codes) > MAX_EXTENSIONS:
            reason = f"has {len(codes):,} different extensions; at most {MAX_EXTENSIONS:,} are supported"
            raise ContentError(shard, None, reason)
        return Places(
            tuple(codes),
            np.array([codes[member.ext] for member in members], dtype=np.uint16),
            np.array([member.offset for member in members], dtype=np.int64),
            np.array([member.size for member in members], dtype=np.int64),
        )


@dataclass(frozen=True)
class TarIndex:
    """``starts[i] … starts[i + 1]`` are the members of sample i; ``order`` sorts the samples by ``hashes``."""

    shard: str
    keys: pa.LargeStringArray
    starts: NDArray[np.int64]
    places: Places
    hashes: NDArray[np.uint64]
    order: NDArray[np.int64]

    @staticmethod
    def of(samples: Iterable[TarSample], shard: str) -> "TarIndex":
        """Return the index of some samples. Samples whose key is not UTF-8 are left out: no filelist can name them."""
        named = [sample for sample in samples if is_text(sample.key)]
        keys = pa.array([sample.key for sample in named], type=pa.large_string())
        starts = np.cumsum([0, *(len(sample.members) for sample in named)])
        return TarIndex.from_columns(
            shard, keys, starts, Places.of([member for sample in named for member in sample.members], shard)
        )

    @staticmethod
    def from_columns(shard: str, keys: pa.LargeStringArray, starts: NDArray[np.int64], places: Places) -> "TarIndex":
        hashes = hash_ids(keys)
        order = np.argsort(hashes, kind="stable")
        return TarIndex(shard, keys, starts, places, hashes[order], order)

    @staticmethod
    def from_bytes(data: memoryview, shard: str) -> "TarIndex":
        """Return the index of a shard from the result of ``to_bytes``. Nothing is checked here."""
        batch = pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()
        members = batch.column("members")
        ext, offset, size = (in_place(members.values.field(name)) for name in ("ext", "offset", "size"))
        places = Places(tuple(json.loads(batch.schema.metadata[b"extensions"])), ext, offset, size)
        return TarIndex.from_columns(shard, batch.column("key"), in_place(members.offsets), places)

    def to_bytes(self) -> memoryview:
        """Return the index as an Arrow stream."""
        columns = (self.places.ext, self.places.offset, self.places.size)
        places = pa.StructArray.from_arrays([pa.array(column) for column in columns], fields=[*_MEMBER])
        members = pa.LargeListArray.from_arrays(pa.array(self.starts), places)
        batch = pa.RecordBatch.from_arrays([self.keys, members], names=["key", "members"])
        batch = batch.replace_schema_metadata({"extensions": json.dumps(self.places.extensions)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return memoryview(sink.getvalue())

    def sample(self, key: str) -> int:
        """Return the number of the sample with a key.

        Raises:
            ContentError: If there is no such sample, or more than one.
        """
        target = hash_id(key)
        begin = self.hashes.searchsorted(target, "left")
        end = self.hashes.searchsorted(target, "right")
        found = [sample for sample in self.order[begin:end].tolist() if self.keys[sample].as_py() == key]
        if not found:
            raise ContentError(self.shard, key, f"no such sample in the shard, which has {len(self.keys):,}")
        if len(found) > 1:
            offsets = " and ".join(str(self.places.offset[self.starts[sample]]) for sample in found)
            raise ContentError(self.shard, key, f"{len(found)} samples with this key in the shard, at bytes {offsets}")
        return int(found[0])

    def members(self, key: str) -> tuple[Member, ...]:
        """Return the files of the sample with a key; raises as ``sample`` does."""
        sample = self.sample(key)
        places = self.places
        here = slice(self.starts[sample], self.starts[sample + 1])
        columns = (places.ext[here].tolist(), places.offset[here].tolist(), places.size[here].tolist())
        return tuple(
            Member(places.extensions[ext], offset, size, None) for ext, offset, size in zip(*columns, strict=True)
        )
