"""A remote store read through the node cache. Knows which version of an object this run sees; not how it is kept."""

import threading
from collections.abc import Mapping
from pathlib import Path

from penstock.runtime.forking import reset_in_children
from penstock.store.blob import ByteRange
from penstock.store.cache.admission import CacheInUse
from penstock.store.cache.blob import CachedBlob
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.paths import object_path
from penstock.store.cache.store import CacheBackedStore
from penstock.store.ranges import check_range
from penstock.store.remote.remote import ObjectChanged, ObjectInfo, Remote


class CachedStore(CacheBackedStore):
    """A ``Store``. The version of an object is fixed when it is first needed: a run sees one version of each object.

    Reading bytes of a replaced version that are not cached is an error.
    """

    def __init__(self, remote: Remote, cache: NodeCache, known: Mapping[str, ObjectInfo] | None = None) -> None:
        super().__init__(cache)
        self.remote = remote
        self._infos: dict[str, ObjectInfo] = {}  # of objects that were asked for
        self._listed: list[Mapping[str, ObjectInfo]] = [known] if known else []
        self._largest = 0  # largest size among objects that the store was asked about
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """In a child the cache counts from zero, and a thread of its parent may hold the lock."""
        self._counting = threading.Lock()
        self._counted = self.remote.retries  # of the client's retries, those that the cache has counted

    @property
    def url(self) -> str:
        return self.remote.url

    @property
    def identity(self) -> str:
        return self.remote.url

    def know(self, infos: Mapping[str, ObjectInfo]) -> None:
        """Add known sizes and versions, which are then not requested. Those that are known already stay."""
        if all(infos is not each for each in self._listed):
            self._listed.append(infos)

    def enter(self, path: str, within: ByteRange | None, patience: float) -> CachedBlob:
        info = self.info(path)
        origin = _ObjectOrigin(self, path, info, within)
        return CachedBlob(self.cache, self._place(path, info, within), origin.size, origin, patience)

    def open_if_here(self, path: str, within: ByteRange | None = None) -> CachedBlob | None:
        info = self.known(path)
        if info is None or not self._place(path, info, within).exists():
            return None
        try:
            blob = self.enter(path, within, patience=0)
        except CacheInUse:  # it was evicted just now
            return None
        if blob.missing(0, blob.size):
            blob.close()
            return None
        return blob

    def info(self, path: str) -> ObjectInfo:
        """Return the size and version of an object in this run. May ask the store."""
        info = self.known(path)
        if info is None:
            info = self._infos.setdefault(path, self.remote.head(path))  # of two threads the first answer counts
            self._largest = max(self._largest, info.size)
        return info

    def version(self, path: str) -> str:
        return self.info(path).etag

    def known(self, path: str) -> ObjectInfo | None:
        """Return the size and version of an object if they are known without a request, else None."""
        found = self._infos.get(path)
        if found is None:
            found = next((infos[path] for infos in self._listed if path in infos), None)
            if found is not None:
                found = self._infos.setdefault(path, found)
        return found

    def resolve_size(self, path: str, within: ByteRange | None = None) -> int:
        info = self.info(path)
        return info.size if within is None else within[1] - within[0]

    def known_size(self, path: str, within: ByteRange | None = None) -> int | None:
        info = self.known(path)
        if within is not None:
            return within[1] - within[0]
        return info.size if info else None

    def estimated_size(self) -> int:
        return self._largest

    def place(self, path: str, within: ByteRange | None = None) -> Path:
        return self._place(path, self.info(path), within)

    def finished(self, path: str, within: ByteRange | None = None) -> None:
        info = self.known(path)
        if info is not None:
            self.cache.evict_first(self._place(path, info, within))

    def count_request(self, nbytes: int) -> None:
        """Count a request that was answered with so many bytes, and the retries since the last."""
        with self._counting:
            total = self.remote.retries
            retries = total - self._counted
            self._counted = total
        self.cache.counters.add(requests=1, bytes_fetched=nbytes, retries=retries)

    def _place(self, path: str, info: ObjectInfo, within: ByteRange | None) -> Path:
        return self.cache.root / object_path(self.remote.url, path, info.etag, within)


class _ObjectOrigin:
    """Origin of an entry: one version of an object, or a range of it."""

    def __init__(self, store: CachedStore, key: str, info: ObjectInfo, within: ByteRange | None) -> None:
        self._store = store
        self._key = key
        self._info = info
        self._first, last = within or (0, info.size)
        self.size = last - self._first
        check_range(info.size, self.size, self._first, self)

    @property
    def version(self) -> str:
        return self._info.etag

    def get(self, start: int, end: int) -> memoryview:
        start += self._first
        end += self._first
        data = self._store.remote.get_range(self._key, start, end, self._info.etag).cast("B")
        if len(data) != end - start:
            raise ObjectChanged(
                f"{self}: bytes {start}..{end} of {self._info.size} were requested and {len(data)} received: the "
                "object is shorter than its known size; list or index it again"
            )
        self._store.count_request(len(data))
        return data

    def __str__(self) -> str:
        return f"{self._store.url}/{self._key}"
