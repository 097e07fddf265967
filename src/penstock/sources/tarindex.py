"""Where every sample of one shard lies, as a few arrays: about 60 bytes a sample, found by the hash of its key."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.manifest.idhash import hash_ids
from penstock.manifest.layout import Member
from penstock.sources.errors import ContentError
from penstock.sources.tar import Sample


@dataclass(frozen=True)
class TarIndex:
    """``starts[i] … starts[i + 1]`` are the members of sample i; ``order`` sorts the samples by hash."""

    keys: pa.LargeStringArray
    starts: NDArray[np.int64]
    ext: NDArray[np.uint16]
    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    extensions: tuple[str, ...]
    hashes: NDArray[np.uint64]
    order: NDArray[np.int64]

    @staticmethod
    def of(samples: Iterable[Sample]) -> "TarIndex":
        keys: list[str] = []
        counts: list[int] = [0]
        codes: dict[str, int] = {}
        places: list[tuple[int, int, int]] = []
        for sample in samples:
            if not sample.key.isascii() and not _is_text(sample.key):
                continue  # not UTF-8, so no filelist can name it
            keys.append(sample.key)
            counts.append(len(sample.members))
            places += [(codes.setdefault(m.ext, len(codes)), m.offset, m.size) for m in sample.members]
        ext, offset, size = np.array(places, dtype=np.int64).reshape(-1, 3).T
        names = pa.array(keys, type=pa.large_string())
        return TarIndex.from_columns(names, np.cumsum(counts), ext.astype(np.uint16), offset, size, tuple(codes))

    @staticmethod
    def from_columns(
        keys: pa.LargeStringArray,
        starts: NDArray[np.int64],
        ext: NDArray[np.uint16],
        offset: NDArray[np.int64],
        size: NDArray[np.int64],
        extensions: tuple[str, ...],
    ) -> "TarIndex":
        hashes = hash_ids(keys)
        order = np.argsort(hashes, kind="stable")
        return TarIndex(keys, starts, ext, offset, size, extensions, hashes[order], order)

    def members(self, key: str, shard: str) -> tuple[Member, ...]:
        """The members of a sample. ``shard`` is for messages."""
        target = hash_ids(pa.array([key], type=pa.large_string()))[0]
        begin, end = np.searchsorted(self.hashes, target, "left"), np.searchsorted(self.hashes, target, "right")
        found = [sample for sample in self.order[begin:end].tolist() if self.keys[sample].as_py() == key]
        if not found:
            raise ContentError(shard, key, f"the shard has no such sample (it has {len(self.keys):,} others)")
        if len(found) > 1:
            places = " and ".join(str(self.offset[self.starts[sample]]) for sample in found)
            raise ContentError(shard, key, f"the shard has this sample {len(found)} times, at bytes {places}")
        here = slice(self.starts[found[0]], self.starts[found[0] + 1])
        columns = (self.ext[here].tolist(), self.offset[here].tolist(), self.size[here].tolist())
        return tuple(
            Member(self.extensions[ext], offset, size, None) for ext, offset, size in zip(*columns, strict=True)
        )


def _is_text(key: str) -> bool:
    return not any("\udc80" <= letter <= "\udcff" for letter in key)
