"""Items of a manifest -> their files in tar shards, by random access. Knows nothing of what the bytes mean."""

import json
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from penstock.plan.draws import Ints
from penstock.readers.blobs import OpenBlobs
from penstock.readers.errors import ContentError
from penstock.readers.lrucache import LruCache
from penstock.readers.metadatacache import MetadataCache, ObjectVersion
from penstock.readers.reader import BaseReader, Evidence, Uses
from penstock.readers.tar.layout import SEGMENT, Member, Shard
from penstock.readers.tar.manifest import KEPT_SHARDS, TarManifest
from penstock.readers.tar.member import MemberFile
from penstock.readers.tar.samples import scan
from penstock.readers.tar.shardindex import INDEX_KIND, TarIndex
from penstock.runtime.forking import reset_in_children
from penstock.store.blob import Store
from penstock.store.extents import Extent, Unit

KEPT_INDEXES = 512
_MILLISECONDS = 1_000  # per second


class ItemFields(NamedTuple):
    """Fields of an item that the manifest has, as the content of a .json."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def readinto(self, buffer: memoryview, offset: int) -> None:
        """Fill the buffer with the bytes from ``offset`` on."""
        buffer[:] = self.data[offset : offset + len(buffer)]

    def read(self) -> bytes:
        """Return all bytes."""
        return self.data

    def in_place(self) -> memoryview:
        """Return the bytes."""
        return memoryview(self.data)

    @property
    def segment(self) -> tuple[float, float] | None:
        """Start and duration of the item in its sound file, in seconds; None for the whole file."""
        found = json.loads(self.data).get(SEGMENT)
        return None if found is None else (float(found[0]), float(found[1]))


class Place(NamedTuple):
    """Where the requested files of an item lie, and the fields that the manifest has."""

    shard: Shard
    members: tuple[Member, ...]
    fields: bytes | None = None


Record = dict[str, MemberFile | ItemFields]
"""The files of an item by extension."""


class TarReader(BaseReader):
    """Reads records from tar shards; see ``readers.reader.Reader``.

    An indexed manifest has the places of all members. Otherwise a shard is scanned when it is first used. The result of
    the scan, an index or an error, stays valid for as long as the reader: ``OpenBlobs`` refuses another version.

    Args:
        manifest: Items.
        open_store: Function that opens the store of the shards, called at the first use: planning needs no store.
        files: Extensions to read; an item with none of them is bad. None for all.
        metadata: Folder of the metadata cache, which shares scans with other processes. None to scan in each process.
    """

    def __init__(
        self,
        manifest: TarManifest,
        open_store: Callable[[], Store],
        files: Collection[str] | None = None,
        metadata: Path | None = None,
    ) -> None:
        self._arguments = (manifest, open_store, files, metadata)
        self._manifest = manifest
        self._files = files
        self._saved_indexes = MetadataCache(metadata, INDEX_KIND) if metadata is not None else None
        self._indexes: LruCache[str, TarIndex] = LruCache(KEPT_INDEXES)
        # These do not refer to self: without a cycle, the refcount frees a dropped reader and its pins at once.
        open_once: Callable[[], Store] = cache(open_store)
        self._open_store = open_once
        self._blobs = OpenBlobs(open_once)
        self._unit = lru_cache(KEPT_SHARDS)(lambda shard: Unit(open_once(), manifest.shard(shard).path))
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._broken: dict[str, ContentError] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return TarReader, self._arguments

    def wants(self, uses: Uses) -> list[Sequence[Extent]]:
        units = [self._unit(shard) for shard in self._manifest.shard_of(uses.row).tolist()]
        if not self._manifest.indexed:
            return [(Extent(unit, 0),) for unit in units]
        starts, ends = self._manifest.extents(uses.row)
        return [(extent,) for extent in map(Extent, units, starts.tolist(), ends.tolist())]

    def resident(self, source: int, group: int) -> Sequence[Extent]:
        # A loose file of one item is needed in one step only: it is fetched for the step, and never pinned before.
        store = self._open_store()
        return tuple(Extent(Unit(store, shard.path), 0, 0) for shard in self._manifest.shared_shards(source, group))

    def locate(self, uses: Uses) -> list[Place | ContentError]:
        manifest = self._manifest
        shards = [manifest.shard(number) for number in manifest.shard_of(uses.row).tolist()]
        if not manifest.indexed:
            return list(map(self._scanned, shards, manifest.ids(uses.row)))
        members = manifest.members(uses.row, self._files)
        rows = uses.row.tolist()
        fields: Sequence[bytes | None] = manifest.fields(uses.row) or [None] * len(rows)
        return [
            Place(shard, own, described) if own else self._nothing_to_read(shard, manifest.members(row)[0])
            for shard, row, own, described in zip(shards, rows, members, fields, strict=True)
        ]

    def read(self, places: Sequence[Place]) -> list[Record | ContentError]:
        return [self._record(place) for place in places]

    def _record(self, place: Place) -> Record:
        record: Record = {member.ext: MemberFile(self._blobs, place.shard, member) for member in place.members}
        return record if place.fields is None else {**record, "json": ItemFields(place.fields)}

    def names(self, uses: Uses) -> list[str]:
        return self._manifest.ids(uses.row)

    def lengths(self, rows: Ints, unit: str) -> Ints | None:
        """Return the durations of items in thousandths of a second."""
        return np.ceil(self._manifest.seconds(rows) * _MILLISECONDS).astype(np.int64) if unit == "seconds" else None

    def find(self, name: str, epoch: int) -> list[int]:  # noqa: ARG002  # the same in every epoch
        return self._manifest.find(name)

    def evidence(self) -> tuple[Evidence, ...]:
        if not self._manifest.indexed:
            return ()
        return ("sha256", "crc32") if self._manifest.hashed else ("crc32",)

    def contents(self, uses: Uses, evidence: Evidence) -> list[str]:
        return self._manifest.contents(uses.row, sha256=evidence == "sha256")

    def close(self) -> None:
        self._blobs.close()

    def _nothing_to_read(self, shard: Shard, members: Sequence[Member]) -> ContentError:
        has = ", ".join(member.ext for member in members)
        return ContentError(shard.path, None, f"has {has}, but none of {', '.join(self._files or ())}")

    def _scanned(self, shard: Shard, name: str) -> Place | ContentError:
        try:
            members = self._index(shard.path).members(name)
        except ContentError as error:
            return error.bare()
        wanted = tuple(member for member in members if self._files is None or member.ext in self._files)
        return Place(shard, wanted) if wanted else self._nothing_to_read(shard, members)

    def _index(self, shard: str) -> TarIndex:
        return self._indexes.get_or_make(shard, lambda: self._make_index(shard))

    def _make_index(self, shard: str) -> TarIndex:
        if shard in self._broken:  # scanning a broken shard at each draw would take most of the time
            raise self._broken[shard].bare()
        blob = self._blobs.get(shard)
        store = self._open_store()
        version = ObjectVersion(store.identity, shard, store.version(shard))
        saved = self._saved_indexes.get(version) if self._saved_indexes else None
        if saved is not None:
            return TarIndex.from_bytes(saved, shard)
        try:
            index = TarIndex.of(scan(blob, shard), shard)
        except ContentError as error:
            # For this process only: a copy in a cache may have been damaged on the way, and is then fetched again.
            self._broken[shard] = error.bare()
            raise
        if self._saved_indexes:
            with suppress(OSError):  # on a full disk, other processes scan for themselves
                self._saved_indexes.put(version, index.to_bytes())
        return index
