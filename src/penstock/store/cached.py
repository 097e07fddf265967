"""A remote store read through the node cache. Knows which version of an object this run sees; not how it is kept."""

from collections.abc import Mapping

from penstock.store.cache import CachedBlob, NodeCache
from penstock.store.remote import ObjectInfo, Remote


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

    def open(self, path: str, patience: float | None = None) -> CachedBlob:
        """``patience``: seconds to wait for room that is in use, if not the cache's own."""
        info = self._known.get(path) or self._asked.get(path)
        if info is None:
            info = self._asked[path] = self.remote.head(path)
        return self.cache.open(self.remote, path, info, patience)

    def close(self) -> None:
        self.cache.close()
