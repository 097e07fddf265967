"""A remote store read through the node cache. Knows which version of an object this run sees; not how it is kept."""

import time
from collections.abc import Mapping

from penstock.store.cache.admission import CacheInUse
from penstock.store.cache.cache import CachedBlob, NodeCache
from penstock.store.remote.remote import ObjectInfo, Remote

_LOOK_AGAIN_SECONDS = 0.02


class CachedStore:
    """A ``Store``. The version of an object is fixed when it is first needed: a run sees one version of each object.

    If the store has replaced it and bytes of the old version are missing here, reading them is an error.
    """

    def __init__(self, remote: Remote, cache: NodeCache, known: Mapping[str, ObjectInfo] | None = None) -> None:
        self.remote = remote
        self.cache = cache
        self._infos: dict[str, ObjectInfo] = dict(known or {})
        self._largest = 0  # largest size among objects that the store was asked about

    @property
    def url(self) -> str:
        return self.remote.url

    def know(self, infos: Mapping[str, ObjectInfo]) -> None:
        """Add sizes and versions, from an index: the store is not asked for those."""
        self._infos = {**infos, **self._infos}

    def open(self, path: str, patience: float | None = None) -> CachedBlob:
        """Open and pin an object.

        Args:
            patience: seconds to wait for room. By default the cache's own, and all processes, this one included, are
                asked to unpin what they have pinned for later.
        """
        info = self.info(path)
        if patience is not None:
            return self.cache.open(self.remote, path, info, patience)
        until = time.monotonic() + self.cache.patience
        while True:
            try:
                return self.cache.open(self.remote, path, info, patience=0)
            except CacheInUse:
                if time.monotonic() > until:
                    raise
                self.cache.room.ask()
                time.sleep(_LOOK_AGAIN_SECONDS)

    def open_if_here(self, path: str) -> CachedBlob | None:
        """Open the object if all of it is in the cache, else return None."""
        info = self._infos.get(path)
        if info is None:
            return None
        try:
            return self.cache.open_if_complete(self.remote, path, info)
        except CacheInUse:  # it was evicted just now
            return None

    def info(self, path: str) -> ObjectInfo:
        """Return the size and version of an object in this run. May ask the store."""
        info = self._infos.get(path)
        if info is None:
            info = self._infos.setdefault(path, self.remote.head(path))  # if two threads ask, the first answer counts
            self._largest = max(self._largest, info.size)
        return info

    def known(self, path: str) -> ObjectInfo | None:
        """Return the same if it is known without a request, else None."""
        return self._infos.get(path)

    def known_size(self, path: str) -> int:
        """Return the object's size if it is known without a request, else the largest size seen so far."""
        info = self._infos.get(path)
        return info.size if info else self._largest

    def finished(self, path: str) -> None:
        """Mark an object as no longer needed: it is evicted before others that were used longer ago."""
        info = self._infos.get(path)
        if info is not None:
            self.cache.leave_first(self.remote, path, info)

    def close(self) -> None:
        self.cache.close()
