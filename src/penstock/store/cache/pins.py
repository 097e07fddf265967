"""Pinned entries of this process: one per object, shared by its users. Knows paths, not keys."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

from penstock.store.cache.admission import Admission
from penstock.store.cache.entry import CacheEntry, pin, sync_entry

SYNC_DELAY_SECONDS = 3.0


class Pins:
    """Entries by path, with a refcount: the first user pins, the last one unpins.

    Args:
        admission: Admits entries that are not in the cache.
        part_bytes: Bytes per part.
        clock: Returns the time of use in nanoseconds, for LRU eviction.
    """

    def __init__(self, admission: Admission, part_bytes: int, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._admission = admission
        self._part_bytes = part_bytes
        self._syncs = SyncQueue()
        self.reset()

    def reset(self) -> None:
        """Start without pins, also in a forked child, whose inherited descriptors are closed."""
        self._lock = threading.RLock()  # reentrant: a finalizer may close a blob while this thread has it
        self._entries: dict[Path, CacheEntry] = {}
        self._syncs.reset()

    def enter(self, path: Path, size: int, patience: float) -> CacheEntry:
        """Pin an object. If it is not in the cache, its size is reserved."""
        with self._lock:
            if entry := self._entries.get(path):
                entry.users += 1
                return entry
        new = pin(path, size, self._part_bytes) or self._admission.enter(path, size, patience)
        return self._share(new)

    def enter_if_complete(self, path: Path) -> CacheEntry | None:
        """Pin an object if it is in the cache and complete, whatever its size. Reserves nothing."""
        with self._lock:
            if entry := self._entries.get(path):
                if entry.complete:
                    entry.users += 1
                    return entry
                return None
        try:
            new = pin(path, path.stat().st_size, self._part_bytes)
        except FileNotFoundError:
            return None
        if new is None or not new.complete:
            if new is not None:
                new.close()
            return None
        return self._share(new)

    def _share(self, new: CacheEntry) -> CacheEntry:
        """Share one entry, the first, between all users in this process."""
        new.free_disk_space = self._admission.free_disk_space
        new.touch(self._clock())
        path = new.path
        with self._lock:
            entry = self._entries.setdefault(path, new)
            if entry is not new:
                entry.users += 1
        if entry is not new:
            new.close()  # without the lock: closing takes another one, which a finalizer may take the other way round
            return entry
        if entry.complete and not entry.synced:  # the process that completed it died before it was synced
            self.sync(entry)
        return entry

    def leave(self, entry: CacheEntry) -> None:
        with self._lock:
            entry.users -= 1
            if entry.users or entry.data.fd < 0:
                return
            del self._entries[entry.path]
        # The time of the last use, set after all writes.
        with contextlib.suppress(OSError):
            entry.touch(self._clock())
        entry.close()

    def sync(self, entry: CacheEntry) -> None:
        """Sync the object to disk in the background. Only a reboot needs it there.

        Until then nothing of it is kept open: an object that is evicted meanwhile leaves the disk at once.
        """
        self._syncs.add(partial(sync_entry, entry.path, entry.size, entry.part_bytes))

    def close(self) -> None:
        """Sync everything that is still waiting."""
        self._syncs.close()


class SyncQueue:
    """Syncs complete objects to disk in a background thread, ``SYNC_DELAY_SECONDS`` after they were added.

    Only a crash of the machine makes it necessary, so it waits: a burst of downloads, while readers wait for bytes,
    does not share the disk with it. What a process leaves undone is done by the next one that opens the object.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start without a thread, also in a forked child; the parent finishes what it has started."""
        self._changed = threading.Condition()
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()  # when, what
        self._thread: threading.Thread | None = None
        self._closing = False

    def add(self, sync: Callable[[], None]) -> None:
        with self._changed:
            self._waiting.append((time.monotonic() + SYNC_DELAY_SECONDS, sync))
            if self._thread is None:
                self._closing = False
                # A daemon thread: the process does not wait for it at exit.
                self._thread = threading.Thread(target=self._work, name="penstock-sync", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Call everything that is still waiting, and end the thread."""
        with self._changed:
            thread = self._thread
            self._closing = True
            self._changed.notify_all()
        if thread:
            thread.join()

    def _work(self) -> None:
        while sync := self._next():
            with contextlib.suppress(OSError):  # the object then stays unmarked
                sync()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while True:
                if self._waiting and (self._closing or self._waiting[0][0] <= time.monotonic()):
                    return self._waiting.popleft()[1]
                if not self._waiting:
                    self._thread = None  # the next ``add`` starts another
                    return None
                self._changed.wait(self._waiting[0][0] - time.monotonic())
