"""A bounded number of open blobs, shared by the threads of a process. Knows nothing of what is in them."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping

from penstock.runtime.forking import reset_in_children
from penstock.store.blob import Blob, ByteRange, Store
from penstock.store.cache.store import CacheBackedStore
from penstock.store.remote.remote import ObjectChanged

OPEN_FILES = 256
OPEN_PINS = 8  # an open blob of a cache is pinned there; most blobs that are read are also pinned by the feed


_Key = tuple[str, ByteRange | None]


class RunVersions(dict[str, str]):
    """Versions of the objects of a store in this run, by path, as they were first opened.

    Objects that a table knows have the version of the table, whichever was opened.
    """

    def __init__(self, seen: Mapping[str, str]) -> None:
        super().__init__(seen)
        self.known: Callable[[str], str | None] = lambda _: None

    def setdefault(self, path: str, version: str = "", /) -> str:
        return self.known(path) or super().setdefault(path, version)


class OpenBlobs:
    """An LRU cache of open blobs. A blob that is evicted is closed when its refcount drops to 0.

    A blob is therefore never closed while it is read, and reading takes no lock. A blob that was replaced since it was
    first opened is an error, because cached metadata would not fit the new one.

    Args:
        open_store: Function that opens the store, called when the first blob is requested.
        capacity: Number of blobs that stay open. By default ``pins`` for a cached store, where open blobs are pinned,
            and ``OPEN_FILES`` otherwise.
        pins: Number of blobs of a cached store that stay open.
        versions: Versions of blobs by path, extended as blobs are opened. Share it to read the same versions.

    Examples:
        >>> from pathlib import Path
        >>> import penstock
        >>> from penstock.store.local import LocalStore
        >>> blobs = penstock.OpenBlobs(lambda: LocalStore(Path("shards")))
        >>> header = bytearray(512)
        >>> blobs.get("bengali-0.tar").readinto(memoryview(header), 0)
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        capacity: int | None = None,
        pins: int = OPEN_PINS,
        versions: dict[str, str] | None = None,
    ) -> None:
        self._open_store = open_store
        self._capacity = capacity
        self._pins = pins
        self._versions = {} if versions is None else versions
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Start empty in a forked child: a thread of the parent may hold the lock, and the pins are the parent's."""
        self._lock = threading.Lock()
        self._open: OrderedDict[_Key, Blob] = OrderedDict()
        self._unsubscribe: Callable[[], None] | None = None

    def versions(self) -> dict[str, str]:
        """Return the versions of all blobs that were opened."""
        return dict(self._versions)

    def get(self, path: str, size: int | None = None, within: ByteRange | None = None) -> Blob:
        """Return a blob, which is open for as long as the caller holds it.

        Args:
            path: Path of the blob in the store.
            size: Required size of the blob; None for any.
            within: Range of the object to open as a blob of its own; None for the whole object.

        Raises:
            OSError: If the blob has another size.
            ObjectChanged: If the blob was replaced.
        """
        try:
            self._open.move_to_end((path, within))
            return self._open[path, within]
        except KeyError:
            store = self._open_store()
            blob = store.open(path, within)  # slow, so it is done without the lock
        # The version is not compared with that of an index: a copy of the data has another one and is just as valid.
        if size is not None and blob.size != size:
            has = f"has {blob.size:,} bytes and had {size:,} when it was indexed; index it again"
            blob.close()
            raise OSError(f"{path}: {has}")
        first = self._versions.setdefault(path, blob.version)
        if blob.version != first:
            new = blob.version
            blob.close()
            raise ObjectChanged(
                f"{path}: was replaced during the run (its version was {first} and is {new} now); "
                "start the run again to use the new one"
            )
        surplus = None  # an evicted blob is closed after the lock is released
        with self._lock:
            blob = self._open.setdefault((path, within), blob)  # if two threads opened it, the first one's blob is kept
            cached = isinstance(store, CacheBackedStore)
            if self._unsubscribe is None and isinstance(store, CacheBackedStore):
                self._unsubscribe = store.cache.space_requests.subscribe(self.close)
            if len(self._open) > (self._capacity or (self._pins if cached else OPEN_FILES)):
                surplus = self._open.popitem(last=False)
        del surplus
        return blob

    def close(self) -> None:
        """Release all blobs. Also called by the cache when it has no room."""
        with self._lock:
            dropped = self._open
            self._open = OrderedDict()
            unsubscribe = self._unsubscribe
            self._unsubscribe = None
        if unsubscribe:
            unsubscribe()
        del dropped
