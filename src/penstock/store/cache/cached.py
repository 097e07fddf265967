"""A remote store read through the node cache. Knows which version of an object this run sees; not how it is kept."""

import time
from collections.abc import Callable, Mapping

from penstock.store.cache.admission import CacheInUse
from penstock.store.cache.cache import CachedBlob, NodeCache
from penstock.store.remote.remote import ObjectInfo, Remote

_LOOK_AGAIN_SECONDS = 0.02


class CachedStore:
    """A ``Store``. ``known`` are sizes and ETags by path, as an index has them; for the rest the store is asked once.

    A version stays what it was when the object was first opened here: a run sees one version of each object, and an
    error if bytes of it are missing that the store no longer has.
    """

    def __init__(self, remote: Remote, cache: NodeCache, known: Mapping[str, ObjectInfo] | None = None) -> None:
        self.remote = remote
        self.cache = cache
        self._known = known or {}
        self._asked: dict[str, ObjectInfo] = {}
        self.make_room: Callable[[], None] = lambda: None  # lets go of what this process has pinned for later

    @property
    def url(self) -> str:
        return self.remote.url

    def open(self, path: str, patience: float | None = None) -> CachedBlob:
        """``patience``: seconds to wait for room that is in use, if not the cache's own.

        With the cache's own, this process and all others are asked to let go of what they have pinned for later.
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
                self.cache.ask_for_room()
                self.make_room()
                time.sleep(_LOOK_AGAIN_SECONDS)

    def info(self, path: str) -> ObjectInfo:
        """The size and version that the object has in this run."""
        info = self._known.get(path) or self._asked.get(path)
        if info is None:
            info = self._asked.setdefault(path, self.remote.head(path))  # of two threads the first decides for both
        return info

    def finished(self, path: str) -> None:
        """Nothing in sight needs the object any more: it leaves before what was used longer ago."""
        info = self._known.get(path) or self._asked.get(path)
        if info is not None:
            self.cache.leave_first(self.remote, path, info)

    def known_size(self, path: str) -> int:
        """As far as it is known without asking; else that of the largest object asked about so far."""
        info = self._known.get(path) or self._asked.get(path)
        return info.size if info else max((each.size for each in list(self._asked.values())), default=0)

    def close(self) -> None:
        self.cache.close()
