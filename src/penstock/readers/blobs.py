"""A bounded number of open blobs, shared by the threads of a process. Knows nothing of what is in them."""

import threading
from collections import OrderedDict
from collections.abc import Collection

from penstock.runtime.forking import reset_in_children
from penstock.store.blob import Blob, Store


class OpenBlobs:
    """The blobs used last stay open. What is let go of here is closed when nobody refers to it any more.

    So one that is being read is never closed under its reader, and a clip takes no lock: the interpreter counts.
    """

    def __init__(self, store: Store, capacity: int):
        self._store = store
        self._capacity = capacity
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """A child opens its own: a parent's thread may have had the lock, and its pins are not the child's."""
        self._lock = threading.Lock()
        self._open: OrderedDict[str, Blob] = OrderedDict()

    def get(self, path: str, size: int | None = None) -> Blob:
        """The blob, open for as long as the caller holds it. One that is not of this size is refused."""
        try:
            self._open.move_to_end(path)
            return self._open[path]
        except KeyError:
            blob = self._store.open(path)  # may take a while, so not under the lock
        # The version is not compared: a copy of the data has another one, and is as good.
        if size is not None and blob.size != size:
            has = f"has {blob.size:,} bytes and had {size:,} when it was indexed; index it again"
            blob.close()
            raise OSError(f"{path}: {has}")
        surplus = None  # what is given up is closed after the lock is
        with self._lock:
            blob = self._open.setdefault(path, blob)  # of two threads that opened it the first decides
            if len(self._open) > self._capacity:
                surplus = self._open.popitem(last=False)
        del surplus
        return blob

    def keep(self, paths: Collection[str]) -> None:
        """Let go of all others: what is open is pinned in a cache."""
        with self._lock:
            dropped = [self._open.pop(path) for path in list(self._open) if path not in paths]
        del dropped

    def close(self) -> None:
        self.keep(())
