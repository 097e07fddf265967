"""The base of all stores over the node cache. Knows units; not where their bytes come from."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

from penstock.store.blob import ByteRange
from penstock.store.cache.admission import CacheInUse
from penstock.store.cache.blob import CachedBlob
from penstock.store.cache.cache import NodeCache
from penstock.store.extents import Extent

_POLL_SECONDS = 0.02


class CacheBackedStore(ABC):
    """A ``Store`` whose units are entries of a node cache. A unit is an object, or a range of its bytes."""

    def __init__(self, cache: NodeCache) -> None:
        self.cache = cache

    def open(self, path: str, within: ByteRange | None = None, patience: float | None = None) -> CachedBlob:
        """Open and pin a unit.

        Args:
            within: Byte range of the unit; None for the whole object.
            patience: Seconds to wait for space. By default the cache's own, and all processes, this one included, are
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
                time.sleep(_POLL_SECONDS)

    @abstractmethod
    def enter(self, path: str, within: ByteRange | None, patience: float) -> CachedBlob:
        """Open and pin a unit, without asking others for space."""

    @abstractmethod
    def open_if_here(self, path: str, within: ByteRange | None = None) -> CachedBlob | None:
        """Open a unit if all of it is in the cache, else return None. Sends no request."""

    @abstractmethod
    def resolve_size(self, path: str, within: ByteRange | None = None) -> int:
        """Return the size of a unit, as exactly as it is known before it is fetched. May ask the store."""

    @abstractmethod
    def known_size(self, path: str, within: ByteRange | None = None) -> int | None:
        """Return the size of a unit if it is known without a request, else None."""

    @abstractmethod
    def estimated_size(self) -> int:
        """Return the size to assume for a unit of unknown size: the largest so far."""

    @abstractmethod
    def place(self, path: str, within: ByteRange | None = None) -> Path:
        """Return the path of a unit in the cache. May ask the store for the version of an object."""

    @abstractmethod
    def finished(self, path: str, within: ByteRange | None = None) -> None:
        """Mark a unit as no longer needed: it is evicted first."""

    def close(self) -> None:
        self.cache.close()


def cached_extents(extents: Iterable[Extent]) -> list[Extent]:
    """Return the extents in the node cache: local files are not fetched."""
    return [extent for extent in extents if isinstance(extent.unit.store, CacheBackedStore)]
