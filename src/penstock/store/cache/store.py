"""What all stores over the node cache offer to those who fetch ahead. Knows units; not where their bytes come from."""

import time
from abc import ABC, abstractmethod

from penstock.store.blob import ByteRange
from penstock.store.cache.admission import CacheInUse
from penstock.store.cache.blob import CachedBlob
from penstock.store.cache.cache import NodeCache

_LOOK_AGAIN_SECONDS = 0.02


class CacheBackedStore(ABC):
    """A ``Store`` whose units are entries of a node cache. A unit is an object, or a range of its bytes."""

    def __init__(self, cache: NodeCache) -> None:
        self.cache = cache

    def open(self, path: str, within: ByteRange | None = None, patience: float | None = None) -> CachedBlob:
        """Open and pin a unit.

        Args:
            within: the range of the object's bytes that the unit is; None for all of it.
            patience: seconds to wait for room. By default the cache's own, and all processes, this one included, are
                asked to unpin what they have pinned for later.
        """
        if patience is not None:
            return self.enter(path, within, patience)
        until = time.monotonic() + self.cache.patience
        while True:
            try:
                return self.enter(path, within, 0)
            except CacheInUse:
                if time.monotonic() > until:
                    raise
                self.cache.space_requests.request()
                time.sleep(_LOOK_AGAIN_SECONDS)

    @abstractmethod
    def enter(self, path: str, within: ByteRange | None, patience: float) -> CachedBlob:
        """Open and pin a unit, without asking others for room."""

    @abstractmethod
    def open_if_here(self, path: str, within: ByteRange | None = None) -> CachedBlob | None:
        """Open the unit if all of it is in the cache, else return None. Asks nobody."""

    @abstractmethod
    def resolve_size(self, path: str, within: ByteRange | None = None) -> int:
        """Return the size of a unit, as exactly as it can be known before it is fetched. May ask the store."""

    @abstractmethod
    def known_size(self, path: str, within: ByteRange | None = None) -> int | None:
        """Return the same if it is known without a request, else None."""

    @abstractmethod
    def estimated_size(self) -> int:
        """Return the size to reckon with for a unit whose own is not known: the largest one so far."""

    @abstractmethod
    def finished(self, path: str, within: ByteRange | None = None) -> None:
        """Mark a unit as no longer needed: it is evicted before others that were used longer ago."""

    def close(self) -> None:
        self.cache.close()
