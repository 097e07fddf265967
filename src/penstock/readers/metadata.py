"""Metadata of objects, such as the footer of a Parquet file: searched for once, then cached in memory and on disk.

    LruCache ──missing──► MetadataCache ──missing──► a search in the bytes of the object (``Ranges.follow``)

Knows nothing of what the metadata is.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from penstock.readers.lrucache import LruCache
from penstock.readers.metadatacache import MetadataCache
from penstock.readers.ranges import Ranges, Search
from penstock.store.extents import Extent

T = TypeVar("T")


@dataclass(frozen=True)
class MetadataKind(Generic[T]):
    """A kind of metadata.

    Attributes:
        name: Name with the version of the format on disk.
        search: Function that begins the search in an object of a given size.
        to_bytes: Function that encodes the metadata for the disk.
        from_bytes: Inverse of ``to_bytes``.
    """

    name: str
    search: Callable[[int], Search[T]]
    to_bytes: Callable[[T], bytes]
    from_bytes: Callable[[memoryview], T]


class MetadataFinder(Generic[T]):
    """Metadata of the objects of a store. Any number of threads may use it.

    Args:
        kind: Kind of metadata.
        ranges: Objects.
        folder: Folder of the metadata cache.
        capacity: Number of objects whose metadata stays in memory.
    """

    def __init__(self, kind: MetadataKind[T], ranges: Ranges, folder: Path, capacity: int) -> None:
        self._kind = kind
        self._ranges = ranges
        self._on_disk = MetadataCache(folder, kind.name)
        self._in_memory: LruCache[str, T] = LruCache(capacity)

    def get(self, path: str) -> T:
        """Return the metadata of an object. May wait for its bytes."""
        return self._in_memory.get_or_make(path, lambda: self._find(path))

    def get_if_here(self, path: str) -> T | Extent:
        """Return the metadata of an object, or the bytes to fetch first. Never waits."""
        known = self._in_memory.get(path)
        if known is not None:
            return known
        version = self._ranges.known_version(path)
        stored = self._on_disk.get(version) if version else None
        if stored is not None:
            return self._in_memory.put(path, self._kind.from_bytes(stored))
        found = self._ranges.follow_if_here(path, self._kind.search)
        return found if isinstance(found, Extent) else self._in_memory.put(path, self._save(path, found))

    def _find(self, path: str) -> T:
        stored = self._on_disk.get(self._ranges.object_version(path))
        if stored is not None:
            return self._kind.from_bytes(stored)
        return self._save(path, self._ranges.follow(path, self._kind.search))

    def _save(self, path: str, found: T) -> T:
        with suppress(OSError):  # on a full disk, other processes search for themselves
            self._on_disk.put(self._ranges.object_version(path), self._kind.to_bytes(found))
        return found
