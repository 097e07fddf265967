"""The stores of a run: folders are read in place, all remote stores share one node cache."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.runtime.forking import reset_in_children
from penstock.store.blob import Store
from penstock.store.cache.account import CONTROL
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.derived import DerivedStore, Maker
from penstock.store.cache.maintenance import INDEXES
from penstock.store.local import LocalStore
from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectInfo, Remote
from penstock.store.remote.urls import local_path

Known = Callable[[str], Mapping[str, ObjectInfo]]
"""URL of a store -> sizes and versions of its objects that are known without a request."""


def derive_from(stores: "Stores", open_store: Callable[[], Store], maker: Maker) -> DerivedStore:
    """Open a store of pieces made from the objects of a store. A ``partial`` of it pickles, so a reader can keep it."""
    return stores.derived(open_store(), maker)


class OpenOnce:
    """Opens a store when it is first called, once per process. Pickles, so a reader can keep it.

    Args:
        stores: Stores of the run.
        url: URL of the store, or a folder.
        options: Options of a remote store.
        infos: Known sizes and versions of its objects, which are then not requested.
    """

    def __init__(
        self, stores: "Stores", url: str, options: StoreOptions, infos: Mapping[str, ObjectInfo] | None = None
    ) -> None:
        self._arguments = (stores, url, options, infos)
        self._store: Store | None = None

    def __call__(self) -> Store:
        if self._store is None:
            stores, url, options, infos = self._arguments
            self._store = stores.open(url, options, lambda _: infos or {})
        return self._store

    def __reduce__(self) -> tuple[type["OpenOnce"], tuple[object, ...]]:
        return OpenOnce, self._arguments


class Stores:
    """Opens stores over one node cache, which is created when the first of them needs it.

    Args:
        folder: Folder of the node cache.
        max_bytes: Bound of the node cache.
        group: Name of a group of users that share the node cache.
        remotes: Clients of remote stores, by URL and options. Those of another process keep what it has found out, such
            as the commit of a branch.
        clock: Clock of the node cache. Not pickled.
    """

    def __init__(
        self,
        folder: Path,
        max_bytes: int,
        group: str | None = None,
        remotes: Mapping[tuple[str, StoreOptions], Remote] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._clock = clock
        self._folder = folder
        self._max_bytes = max_bytes
        self._group = group
        self._remotes = dict(remotes or {})
        self._open: dict[tuple[str, StoreOptions], Store] = {}
        self.cache: NodeCache | None = None
        """The node cache, once a remote store or a derived store needs it."""
        self.opens_run = False
        """Whether a run is being opened, which then calls ``NodeCache.require`` with its working set."""
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
            return LocalStore(folder, self._folder.resolve() / CONTROL / INDEXES)
        remote = self._remotes.get((url, options)) or open_remote(url, options)
        return CachedStore(remote, self._node_cache())

    def identities(self) -> set[str]:
        """Return the identities of all stores that were opened."""
        with self._lock:
            return {store.identity for store in self._open.values()}

    def derived(self, inputs: Store, maker: Maker) -> DerivedStore:
        """Open a store of pieces made from the objects of another."""
        with self._lock:
            return DerivedStore(inputs, maker, self._node_cache())

    def _node_cache(self) -> NodeCache:
        if self.cache is None:
            self.cache = NodeCache(self._folder, self._max_bytes, group=self._group, clock=self._clock)
            self.cache.admission.opening = self.opens_run
        return self.cache

    def close(self) -> None:
        for store in self._open.values():
            store.close()
        if self.cache is not None:
            self.cache.close()

    def __reduce__(self) -> tuple[type["Stores"], tuple[object, ...]]:
        remotes = {key: store.remote for key, store in self._open.items() if isinstance(store, CachedStore)}
        return Stores, (self._folder, self._max_bytes, self._group, self._remotes | remotes)
