"""The stores of a run and what fetches ahead from them: opened once per process. Knows no plan and no batch."""

import threading
import weakref
from collections.abc import Callable
from dataclasses import asdict

from penstock.config import PrefetchConfig
from penstock.feed.ahead import Ahead
from penstock.feed.catalog import Catalog
from penstock.runtime.forking import reset_in_children
from penstock.store.cache.account import upper_bound
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.prefetch import Prefetcher
from penstock.store.stores import Stores

RequireRoom = Callable[[NodeCache], None]
"""Raises ``ConfigError`` if the cache is too small for the run."""


class Fetching:
    """Opens stores, and fetches ahead from remote ones.

    Args:
        catalog: Parts of the run.
        stores: Stores of the run.
        options: Section ``prefetch`` of the config.
    """

    def __init__(self, catalog: Catalog, stores: Stores, options: PrefetchConfig) -> None:
        self._catalog = catalog
        self._stores = stores
        self._options = options
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._starting = threading.RLock()
        self._started = False
        self._ahead: Ahead | None = None

    def start(self, require_room: RequireRoom, workers: int = 1) -> Ahead | None:
        """Open the stores and start fetching ahead, unless this process already did.

        Args:
            require_room: Check of the cache.
            workers: Number of processes that share the requests of this rank.

        Returns:
            None if all stores are local.

        Raises:
            ConfigError: If the cache is too small for what the run uses at once.
        """
        if not self._started:
            with self._starting:
                if not self._started:
                    self._ahead = self._open_ahead(require_room, workers)
                    self._started = True
        return self._ahead

    def open_cache(self, require_room: RequireRoom) -> NodeCache | None:
        """Open the stores of all sources.

        Args:
            require_room: Check of the cache.

        Returns:
            The node cache of remote stores; None if all stores are local.

        Raises:
            ConfigError: If the cache is too small for what the run uses at once.
        """
        cache = self._open_stores()
        if cache is not None:
            require_room(cache)
        return cache

    def count_cache(self) -> dict[str, int]:
        """Return the counters of the node cache over all processes of the node; empty if all stores are local."""
        cache = self._open_stores()
        return asdict(cache.counters.node()) if cache else {}

    def cache_held(self) -> tuple[int, int] | None:
        """Return about how many bytes the node cache holds, and its bound; None without a cache."""
        cache = self._open_stores()
        held = None if cache is None else upper_bound(cache.root)
        return None if cache is None or held is None else (held, cache.max_bytes)

    def _open_stores(self) -> NodeCache | None:
        self._catalog.open_stores()
        return self._stores.cache

    def _open_ahead(self, require_room: RequireRoom, workers: int) -> Ahead | None:
        cache = self.open_cache(require_room)
        if cache is None:
            return None
        options = self._options
        prefetcher = Prefetcher(
            cache, max(min(1, options.concurrency), options.concurrency // workers), options.bandwidth
        )
        ahead = Ahead(self._catalog, cache, options.steps, prefetcher)
        # Its threads would outlive the feed; not at exit, where they may be in the middle of a request.
        weakref.finalize(self, ahead.close, wait=False).atexit = False
        return ahead

    def close(self) -> None:
        """Stop fetching ahead and unpin what it holds in the node cache, and close the stores."""
        ahead = self._ahead
        self._ahead = None
        self._started = False
        if ahead:
            ahead.close()
        self._catalog.close()
        self._stores.close()
