"""Ranges of large objects, as units of the node cache. Knows offsets; nothing of what is in the bytes.

An object of a cached store is read by the ranges that its reader names, a small object as a whole. A local file is read
in place. Metadata is found by a *search*: a generator that yields the byte ranges it needs, one after another, and
returns what it found. The same search serves a thread that may wait and one that may not.
"""

from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

import numpy as np

from penstock.readers.blobs import OPEN_PINS, OpenBlobs
from penstock.readers.metadatacache import ObjectVersion
from penstock.store.blob import Blob, ByteRange, Store
from penstock.store.cache.store import CacheBackedStore
from penstock.store.extents import Extent, Unit
from penstock.store.local import LocalBlob, LocalStore

T = TypeVar("T")
Search = Generator[ByteRange, memoryview, T]

WHOLE_BYTES = 1 << 20  # an object up to this size is one unit: the cache fetches no less at a time


class Ranges:
    """The objects of a store, read by ranges. Any number of threads may use it.

    Args:
        open_store: Function that opens the store, called when the first object is requested.
        pins: Number of units that stay open, for a cached store.
        versions: Versions of objects, shared with other readers of the same objects; see ``OpenBlobs``.

    Attributes:
        known: Returns the version of an object by which its cached metadata is found; None if it is not known yet.
    """

    def __init__(
        self, open_store: Callable[[], Store], pins: int = OPEN_PINS, versions: dict[str, str] | None = None
    ) -> None:
        self.known: Callable[[str], str | None] = lambda _: None
        self._open_store = open_store
        self._store: Store | None = None
        self._blobs = OpenBlobs(open_store, pins=pins, versions=versions)

    def open_store(self) -> Store:
        """Return the store, opened by the first call."""
        if self._store is None:
            self._store = self._open_store()
        return self._store

    def versions(self) -> dict[str, str]:
        """Return the versions of all objects that were opened. Other processes of the run must see the same ones."""
        return self._blobs.versions()

    def known_size(self, path: str) -> int | None:
        """Return the size of an object if it is known without a request."""
        store = self.open_store()
        return store.known_size(path) if isinstance(store, CacheBackedStore) else self._blobs.get(path).size

    def size(self, path: str) -> int:
        """Return the size of an object. May ask the store."""
        store = self.open_store()
        return store.resolve_size(path) if isinstance(store, CacheBackedStore) else self._blobs.get(path).size

    def object_version(self, path: str) -> ObjectVersion:
        """Return the version of an object that this run sees. May ask the store.

        Raises:
            ObjectChanged: If another version of a local file was opened before.
        """
        store = self.open_store()
        known = self.known(path)
        if known is not None:
            return ObjectVersion(store.identity, path, known)
        if isinstance(store, CacheBackedStore):
            return ObjectVersion(store.identity, path, store.version(path))
        blob = self._blobs.get(path)
        version = blob.version
        if isinstance(store, LocalStore) and isinstance(blob, LocalBlob):
            version = store.file_versions.get(path, blob)
        return ObjectVersion(store.identity, path, version)

    def keep_version(self, path: str) -> None:
        """Keep the version of a fully indexed object across changes that leave its bytes as they are."""
        store = self.open_store()
        if isinstance(store, LocalStore):
            blob = self._blobs.get(path)
            assert isinstance(blob, LocalBlob)
            store.file_versions.keep(path, blob)

    def known_version(self, path: str) -> ObjectVersion | None:
        """Return the version of an object if it is known without a request."""
        return None if self.known_size(path) is None else self.object_version(path)

    def unit(self, path: str, within: ByteRange, size: int) -> Unit:
        """Return the unit of the cache that holds a range of an object of a given size."""
        return Unit(self.open_store(), path, self._within(within, size))

    def extent(self, path: str, within: ByteRange, size: int, start: int, end: int) -> Extent:
        """Return the extent of bytes ``start`` to ``end`` of an object, which lie in the range ``within``."""
        unit = self.unit(path, within, size)
        first = unit.within[0] if unit.within else 0
        return Extent(unit, start - first, end - first)

    def read(self, path: str, within: ByteRange, size: int, start: int, end: int) -> memoryview:
        """Return bytes ``start`` to ``end`` of an object, which lie in the range ``within``."""
        data = np.empty(end - start, np.uint8)  # not filled with zeros first, as a bytearray would be
        self.readinto(path, within, size, start, data.data)
        return data.data

    def readinto(self, path: str, within: ByteRange, size: int, start: int, buffer: memoryview) -> None:
        """Fill a buffer with bytes of an object from ``start`` on, which lie in the range ``within``.

        Raises:
            ObjectChanged: If it is a local file that was written to since it was opened.
        """
        inside = self._within(within, size)
        blob = self._blobs.get(path, None if inside else size, inside)
        try:
            if len(buffer):
                blob.readinto(buffer, start - (inside[0] if inside else 0))
        finally:
            if isinstance(blob, LocalBlob):
                blob.require_unchanged()

    def fetch(self, path: str, units: Iterable[ByteRange], size: int) -> None:
        """Fetch units that are read next, several at a time, unless they are cached."""
        store = self.open_store()
        if not isinstance(store, CacheBackedStore):
            return
        distinct = dict.fromkeys(self._within(unit, size) for unit in units)

        def fetch_one(within: ByteRange | None) -> bool:
            blob = store.open(path, within)
            try:
                blob.fetch_whole()
            finally:
                blob.close()
            return False

        store.cache.fetch_pool.run(fetch_one, list(distinct))

    def follow(self, path: str, search: Callable[[int], Search[T]]) -> T:
        """Run a search, waiting for the bytes that it needs.

        Args:
            path: Path of the object.
            search: Function that begins the search in an object of a given size.

        Returns:
            What the search found.
        """
        size = self.size(path)
        steps = search(size)
        answer: memoryview | None = None
        while True:
            try:
                start, end = steps.send(answer)  # type: ignore[arg-type]  # None begins a generator
            except StopIteration as found:
                return found.value  # type: ignore[no-any-return]
            answer = self.read(path, (start, end), size, start, end)

    def follow_if_here(self, path: str, search: Callable[[int], Search[T]]) -> T | Extent:
        """Run a search as far as its bytes are cached or local. Never waits.

        Returns:
            What the search found, or the extent that it needs next.
        """
        size = self.known_size(path)
        if size is None:
            return Extent(Unit(self.open_store(), path, (0, 1)), 0, 0)  # pinning a byte only asks for the size
        steps = search(size)
        answer: memoryview | None = None
        while True:
            try:
                start, end = steps.send(answer)  # type: ignore[arg-type]
            except StopIteration as found:
                return found.value  # type: ignore[no-any-return]
            extent = self.extent(path, (start, end), size, start, end)
            blob = self.open_store().open_if_here(path, extent.unit.within)
            if blob is None:
                return extent
            answer = _read(blob, extent.start, end - start)
            blob.close()

    def close(self) -> None:
        self._blobs.close()

    def _within(self, within: ByteRange, size: int) -> ByteRange | None:
        """Return the range as a unit; None for the whole object."""
        if size <= WHOLE_BYTES or not isinstance(self.open_store(), CacheBackedStore):
            return None
        return within


def _read(blob: Blob, start: int, size: int) -> memoryview:
    data = np.empty(size, np.uint8)  # not filled with zeros first, as a bytearray would be
    if size:
        blob.readinto(data.data, start)
    return data.data
