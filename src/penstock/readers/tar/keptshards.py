"""What was read of each shard, in a folder: an index that was stopped reads no shard twice. Knows no manifest.

    OUT.shards/<digest of store, path, version>.learnt

Several processes and machines may write into the folder at once. They take no locks, as network file systems may have
none: a file appears whole, and all that write it write the same bytes.
"""

import json
import struct
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from penstock.readers.errors import ContentError
from penstock.readers.metadatacache import MetadataCache, ObjectVersion
from penstock.readers.tar.layout import Shard
from penstock.readers.tar.shardindex import INDEX_KIND, TarIndex
from penstock.readers.tar.shardreader import HowToRead, ShardContents

_LENGTHS = struct.Struct("<II")  # of the header and of the index
_LEFT_BEHIND_SECONDS = 86_400


def contents_bytes(contents: ShardContents) -> bytes:
    """Return what was read of a shard as bytes: header, index, CRC-32, codes of sources, seconds, SHA-256."""
    names = sorted(set(contents.sources))
    code = {name: place for place, name in enumerate(names)}
    about = {
        "size": contents.shard.size,
        "version": contents.shard.version,
        "sources": names,
        "sha256": contents.sha256 is not None,
        "without_text": contents.without_text,
        "fields": contents.fields,
        "problems": [[problem.shard, problem.item, problem.reason] for problem in contents.problems],
    }
    header = json.dumps(about).encode()
    index = contents.index.to_bytes()
    sources = np.array([code[name] for name in contents.sources], dtype="<i4")
    seconds = np.array(contents.seconds, dtype="<f8")
    columns = [contents.crc.astype("<u4").tobytes(), sources.tobytes(), seconds.tobytes(), *(contents.sha256 or ())]
    return b"".join([_LENGTHS.pack(len(header), len(index)), header, index, *columns])


def contents_from(data: memoryview, path: str) -> ShardContents:
    """Return what was read of a shard: the inverse of ``contents_bytes``."""
    header_length, index_length = _LENGTHS.unpack_from(data)
    at = _LENGTHS.size + header_length
    about = json.loads(bytes(data[_LENGTHS.size : at]))
    index = TarIndex.from_bytes(data[at : at + index_length], path)
    at += index_length
    crc = np.frombuffer(data, "<u4", len(index.places.ext), at)
    at += crc.nbytes
    samples = len(index.keys) if about["sources"] else 0
    sources = np.frombuffer(data, "<i4", samples, at)
    seconds = np.frombuffer(data, "<f8", samples, at + sources.nbytes)
    at += sources.nbytes + seconds.nbytes
    digests = [bytes(data[first : first + 32]) for first in range(at, at + 32 * len(crc), 32)]
    return ShardContents(
        Shard(path, about["size"], about["version"]),
        index,
        crc,
        [about["sources"][code] for code in sources.tolist()],
        seconds.tolist(),
        [ContentError(*problem) for problem in about["problems"]],
        digests if about["sha256"] else None,
        about["without_text"],
        about["fields"],
    )


class KeptShards:
    """A folder of what was read of shards.

    Args:
        folder: Folder, made when the first shard is kept.
        store: ``identity`` of the shards' store.
        how: What was read of the shards.
    """

    def __init__(self, folder: Path, store: str, how: HowToRead) -> None:
        self._folder = folder
        self._store = store
        kind = f"tar shard 4, {INDEX_KIND}, {how._asdict()}"
        self._metadata = MetadataCache(folder, kind)

    @property
    def is_empty(self) -> bool:
        return not self._folder.exists()

    def has(self, path: str, version: str) -> bool:
        """Return whether something is kept of a version of a shard. It may be damaged."""
        return (self._folder / self._metadata.name(ObjectVersion(self._store, path, version))).exists()

    def load(self, path: str, version: str) -> ShardContents | None:
        """Return what was read of a version of a shard; None if it is not kept, or damaged."""
        kept = self._metadata.get(ObjectVersion(self._store, path, version))
        return None if kept is None else contents_from(kept, path)

    def keep(self, path: str, version: str, made: bytes) -> None:
        self._metadata.put_unlocked(ObjectVersion(self._store, path, version), made)

    def clean(self, versions: Mapping[str, str]) -> None:
        """Remove what is kept of other shards and versions, and what killed processes have left.

        Args:
            versions: Versions of shards, by path.
        """
        used = {self._metadata.name(ObjectVersion(self._store, *each)) for each in versions.items()}
        long_ago = time.time() - _LEFT_BEHIND_SECONDS
        for path in self._folder.iterdir():
            is_left = path.suffix == ".partial" and path.stat().st_mtime < long_ago
            if is_left or (path.suffix == ".learnt" and path.name not in used):
                path.unlink(missing_ok=True)
