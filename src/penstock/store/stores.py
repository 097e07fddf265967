"""The stores of a run: folders are read in place, all remote stores share one node cache."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.runtime.forking import reset_in_children
from penstock.store.blob import Store
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.local import LocalStore
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectInfo
from penstock.store.remote.urls import local_path, open_remote

Known = Callable[[str], Mapping[str, ObjectInfo]]
"""URL of a store -> sizes and versions of its objects that are known without a request."""


class Stores:
    """Opens stores over one node cache, which is created with the first remote store.

    Args:
        folder: of the node cache.
        max_bytes: bound of the node cache.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._open: dict[tuple[str, StoreOptions], Store] = {}
        self.cache: NodeCache | None = None
        """The node cache, once a remote store was opened."""
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._lock = threading.Lock()

    def open(self, url: str, options: StoreOptions, known: Known) -> Store:
        """Open a folder or a URL as a store. The same URL and options give the same store."""
        with self._lock:
            store = self._open.get((url, options)) or self._new(url, options)
            self._open[url, options] = store
        if isinstance(store, CachedStore) and (infos := known(store.url)):
            store.know(infos)
        return store

    def _new(self, url: str, options: StoreOptions) -> Store:
        folder = local_path(url)
        if folder is not None:
            return LocalStore(folder)
        if self.cache is None:
            self.cache = NodeCache(self._folder, self._max_bytes)
        return CachedStore(open_remote(url, options), self.cache)

    def close(self) -> None:
        for store in self._open.values():
            store.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Stores, (self._folder, self._max_bytes)
