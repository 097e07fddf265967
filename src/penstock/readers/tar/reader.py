"""Items of a manifest -> their files in tar shards, by random access. Knows nothing of what the bytes mean."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from penstock.readers.blobs import OpenBlobs
from penstock.readers.errors import ContentError
from penstock.readers.metadatacache import MetadataCache, ObjectVersion
from penstock.readers.reader import Uses
from penstock.readers.tar.indexbytes import KIND, index_bytes, index_from
from penstock.readers.tar.layout import Member, Shard
from penstock.readers.tar.manifest import KEPT_SHARDS, TarManifest
from penstock.readers.tar.member import MemberFile
from penstock.readers.tar.samples import scan
from penstock.readers.tar.shardindex import TarIndex
from penstock.runtime.forking import reset_in_children
from penstock.store.blob import Store
from penstock.store.extents import Extent, Unit

KEPT_INDEXES = 512

Record = dict[str, MemberFile]
"""The files of an item by extension."""


class Place(NamedTuple):
    """Where the requested files of an item lie."""

    shard: Shard
    members: tuple[Member, ...]


class TarReader:
    """Reads records from tar shards; see ``readers.reader.Reader``.

    An indexed manifest has the places of all members. Otherwise a shard is scanned when it is first used. What the scan
    finds, an index or that the shard is broken, holds for as long as the reader: ``OpenBlobs`` refuses another version.

    Args:
        manifest: the items.
        open_store: opens the store of the shards. Called at the first use: planning needs no store.
        files: the extensions to read; an item with none of them is bad. None: all.
        shelf: a folder in which scans are kept for other processes. Without it, each process scans for itself.
    """

    def __init__(
        self,
        manifest: TarManifest,
        open_store: Callable[[], Store],
        files: Collection[str] | None = None,
        shelf: Path | None = None,
    ) -> None:
        self._manifest = manifest
        self._open_store = open_store
        self._files = files
        self._shelf_folder = shelf
        self._shelf = MetadataCache(shelf, KIND) if shelf is not None else None
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._lock = threading.Lock()
        self._indexes: OrderedDict[str, TarIndex] = OrderedDict()
        self._broken: dict[str, ContentError] = {}
        self._scanning: dict[str, threading.Lock] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return TarReader, (self._manifest, self._open_store, self._files, self._shelf_folder)

    @cached_property
    def _store(self) -> Store:
        return self._open_store()

    @cached_property
    def _blobs(self) -> OpenBlobs:
        store = self._store
        return OpenBlobs(lambda: store)

    @cached_property
    def _unit(self) -> Callable[[int], Unit]:
        store = self._store
        manifest = self._manifest
        # Does not refer to self: without a cycle, the refcount frees a dropped reader and its pins at once.
        return lru_cache(KEPT_SHARDS)(lambda shard: Unit(store, manifest.shard(shard).path))

    def wants(self, uses: Uses) -> list[Sequence[Extent]]:
        units = [self._unit(shard) for shard in self._manifest.shard_of(uses.row).tolist()]
        if not self._manifest.indexed:
            return [(Extent(unit, 0),) for unit in units]
        starts, ends = self._manifest.extents(uses.row)
        return [(extent,) for extent in map(Extent, units, starts.tolist(), ends.tolist())]

    def resident(self, source: int, group: int) -> Sequence[Extent]:
        unit = Unit(self._store, self._manifest.shard_of_group(source, group).path)
        return (Extent(unit, 0, 0),)

    def locate(self, uses: Uses) -> list[Place | ContentError]:
        manifest = self._manifest
        shards = [manifest.shard(number) for number in manifest.shard_of(uses.row).tolist()]
        if not manifest.indexed:
            return list(map(self._scanned, shards, manifest.ids(uses.row)))
        members = manifest.members(uses.row, self._files)
        rows = uses.row.tolist()
        return [
            Place(shard, own) if own else self._nothing_to_read(shard, manifest.members(row)[0])
            for shard, row, own in zip(shards, rows, members, strict=True)
        ]

    def read(self, places: Sequence[Place]) -> list[Record | ContentError]:
        blobs = self._blobs
        return [{member.ext: MemberFile(blobs, shard, member) for member in members} for shard, members in places]

    def names(self, uses: Uses) -> list[str]:
        return self._manifest.ids(uses.row)

    def find(self, name: str, epoch: int) -> list[int]:  # noqa: ARG002  # the same in every epoch
        return self._manifest.find(name)

    def close(self) -> None:
        if "_blobs" in self.__dict__:  # otherwise nothing was opened
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
        with self._lock:
            if shard in self._indexes:
                self._indexes.move_to_end(shard)
                return self._indexes[shard]
            self._refuse_broken(shard)
            turn = self._scanning.setdefault(shard, threading.Lock())
        with turn:  # one thread scans, the others wait and find its result
            with self._lock:
                if shard in self._indexes:
                    return self._indexes[shard]
                self._refuse_broken(shard)
            index = self._learn(shard)
            with self._lock:
                self._indexes[shard] = index
                self._scanning.pop(shard, None)
                if len(self._indexes) > KEPT_INDEXES:
                    self._indexes.popitem(last=False)
        return index

    def _refuse_broken(self, shard: str) -> None:
        """Raise what an earlier scan has found: scanning a broken shard at each draw would take most of the time."""
        if shard in self._broken:
            raise self._broken[shard].bare()

    def _learn(self, shard: str) -> TarIndex:
        blob = self._blobs.get(shard)
        about = ObjectVersion(self._store.identity, shard, self._store.version(shard))
        kept = self._shelf.get(about) if self._shelf else None
        if kept is not None:
            return index_from(kept, shard)
        try:
            index = TarIndex.of(scan(blob, shard), shard)
        except ContentError as error:
            # For this process only: a copy in a cache may have been damaged on the way, and is then fetched again.
            self._broken[shard] = error.bare()
            raise
        if self._shelf:
            with suppress(OSError):  # on a full disk: other processes scan for themselves
                self._shelf.put(about, index_bytes(index))
        return index
