"""Items of a manifest -> their bytes, out of tar shards at random places. Knows nothing of what the bytes mean."""

import threading
import zlib
from collections import OrderedDict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.readers.blobs import OpenBlobs
from penstock.readers.errors import ContentError
from penstock.readers.tar.layout import Member, Shard
from penstock.readers.tar.manifest import Manifest
from penstock.readers.tar.samples import scan
from penstock.readers.tar.shardindex import TarIndex
from penstock.readers.tar.shelf import Shelf
from penstock.runtime.forking import reset_in_children
from penstock.store.blob import Blob, Store
from penstock.store.cache.cache import CachedBlob

OPEN_BLOBS = 256
KEPT_INDEXES = 512


Files = Collection[str] | None  # extensions; None: all


class Place(NamedTuple):
    """Where an item's files lie, or those of them that were asked for."""

    shard: Shard
    members: tuple[Member, ...]


class TarSource:
    """Reads records. From an indexed manifest the places are known; otherwise a shard is scanned at its first use.

    ``shelf`` is a folder where scans are kept for the next process; without it each process scans for itself.
    Any number of threads may read; after a fork the child opens its own blobs.
    """

    def __init__(self, store: Store, manifest: Manifest, *, shelf: str | Path | None = None):
        self._manifest = manifest
        self._blobs = OpenBlobs(store, OPEN_BLOBS)
        self._shelf = Shelf(shelf) if shelf is not None else None
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._lock = threading.Lock()
        self._indexes: OrderedDict[str, TarIndex] = OrderedDict()
        self._scanning: dict[str, threading.Lock] = {}

    def record(self, row: int, files: Files = None) -> dict[str, bytes]:
        """The files of an item by extension, all or some; verified where the manifest has checksums."""
        [place] = self.look_up([row], files)
        return self.read(row, place)

    def read(self, row: int, place: Place | ContentError) -> dict[str, bytes]:
        """``record`` of an item that was looked up already."""
        if isinstance(place, ContentError):
            raise place.bare()
        blob = self.blob(place.shard)
        return {member.ext: self._whole(blob, row, member) for member in place.members}

    def look_up(self, rows: Sequence[int], files: Files = None) -> list[Place | ContentError]:
        """Where each of some items lies, or what is wrong with it. Quicker than to ask for one after the other."""
        shards = [self._manifest.shard(number) for number in self._manifest.shard_of(rows).tolist()]
        if self._manifest.indexed:
            return list(map(Place, shards, self._manifest.members_of(rows, files)))
        names = self._manifest.ids(rows)
        return [self._scanned(shard, name, files) for shard, name in zip(shards, names, strict=True)]

    def extensions(self, row: int) -> list[str]:
        """Of the files of an item; none of one that can't be found."""
        [place] = self.look_up([row])
        return [] if isinstance(place, ContentError) else [member.ext for member in place.members]

    def blob(self, shard: Shard) -> Blob:
        """A shard, open, and pinned in a cache, for as long as the caller refers to it."""
        return self._blobs.get(shard.path, shard.size)

    def verify(self, blob: Blob, row: int, member: Member) -> None:
        """Compare a member that came from afar with its checksum, once for each time that it was downloaded.

        For who reads only a part of it. A local folder is read as it is: who made it vouches for it.
        """
        if isinstance(blob, CachedBlob) and member.crc is not None:
            note = member.offset // 512  # its block in the tar
            if not blob.noted(note):
                self._whole(blob, row, member)
                blob.take_note(note)

    def keep_open(self, paths: Collection[str]) -> None:
        """Close what is open beyond these shards."""
        self._blobs.keep(paths)

    def shard_path(self, row: int) -> str:
        return self._shard(row).path

    def close(self) -> None:
        self._blobs.close()

    def _scanned(self, shard: Shard, name: str, files: Files) -> Place | ContentError:
        try:
            members = self._index(shard.path).members(name)
            return Place(shard, tuple(member for member in members if files is None or member.ext in files))
        except ContentError as error:
            return error.bare()

    def _shard(self, row: int) -> Shard:
        return self._manifest.shard(int(self._manifest.shard_of(row)))

    def _id(self, row: int) -> str:
        return self._manifest.ids(row)[0]

    def _whole(self, blob: Blob, row: int, member: Member) -> bytes:
        buffer = bytearray(member.size)
        blob.readinto(memoryview(buffer), member.offset)
        if member.crc is not None and zlib.crc32(buffer) != member.crc:
            if isinstance(blob, CachedBlob) and _repaired(blob, member):
                return self._whole(blob, row, member)
            reason = f".{member.ext} is damaged: its checksum is not the one in the manifest"
            raise ContentError(self._shard(row).path, self._id(row), reason)
        return bytes(buffer)

    def _index(self, shard: str) -> TarIndex:
        with self._lock:
            if shard in self._indexes:
                self._indexes.move_to_end(shard)
                return self._indexes[shard]
            turn = self._scanning.setdefault(shard, threading.Lock())
        with turn:  # one thread scans, the others wait and find its result
            with self._lock:
                if shard in self._indexes:
                    return self._indexes[shard]
            index = self._learn(shard)
            with self._lock:
                self._indexes[shard] = index
                self._scanning.pop(shard, None)
                if len(self._indexes) > KEPT_INDEXES:
                    self._indexes.popitem(last=False)
        return index

    def _learn(self, shard: str) -> TarIndex:
        blob = self._blobs.get(shard)
        index = self._shelf.get(shard, blob.version) if self._shelf else None
        if index is None:
            index = TarIndex.of(scan(blob, shard), shard)
            if self._shelf:
                self._shelf.put(blob.version, index)
        return index


def _repaired(blob: CachedBlob, member: Member) -> bool:
    """Whether the store has the right bytes, so that the damage was done on the way and is undone now."""
    return blob.fetch_again(member.offset, member.offset + member.size, lambda data: zlib.crc32(data) == member.crc)
