"""A bounded number of open blobs, shared by the threads of a process. Knows nothing of what is in them."""

import threading
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass

from penstock.forking import reset_in_children
from penstock.store.blob import Blob, Store


@dataclass
class _Open:
    blob: Blob
    users: int = 0
    kept: bool = True


class OpenBlobs:
    """The blobs used last stay open. One that is being read is never closed: its last reader closes it."""

    def __init__(self, store: Store, capacity: int):
        self._store = store
        self._capacity = capacity
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """A child opens its own: a parent's thread may have had the lock, and its pins are not the child's."""
        self._lock = threading.Lock()
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def use(self, path: str) -> "BlobUse":
        """The blob, open for as long as a ``with`` block lasts."""
        return BlobUse(self, path)

    def keep(self, paths: Collection[str]) -> None:
        """Close all others, those in use when their last reader is done: what is open is pinned in a cache."""
        with self._lock:
            idle = [self._drop(path) for path in list(self._open) if path not in paths]
        _close(idle)

    def close(self) -> None:
        self.keep(())

    def _enter(self, path: str) -> _Open:
        with self._lock:
            if path in self._open:
                return self._join(path)
        blob = self._store.open(path)  # may take a while, so not under the lock
        with self._lock:
            if path in self._open:
                surplus, entry = [_Open(blob)], self._join(path)
            else:
                self._open[path] = _Open(blob)
                entry = self._join(path)
                surplus = [self._drop(next(iter(self._open)))] if len(self._open) > self._capacity else []
        _close(surplus)
        return entry

    def _join(self, path: str) -> _Open:
        entry = self._open[path]
        entry.users += 1
        self._open.move_to_end(path)
        return entry

    def _drop(self, path: str) -> _Open:
        entry = self._open.pop(path)
        entry.kept = False
        return entry

    def _leave(self, entry: _Open) -> None:
        with self._lock:
            entry.users -= 1
            idle = [entry] if not entry.kept else []
        _close(idle)


class BlobUse:
    """A ``with`` block's hold on a blob. Entered for every clip, so no generator under contextmanager."""

    __slots__ = ("_blobs", "_entry", "_path")

    def __init__(self, blobs: OpenBlobs, path: str) -> None:
        self._blobs, self._path = blobs, path

    def __enter__(self) -> Blob:
        self._entry = self._blobs._enter(self._path)
        return self._entry.blob

    def __exit__(self, *_: object) -> None:
        self._blobs._leave(self._entry)


def _close(entries: list[_Open]) -> None:
    for entry in entries:
        if entry.users == 0:
            entry.blob.close()
