"""One entry of the node cache, open for reading. Missing bytes are fetched from its origin."""

import sys
import time
from collections.abc import Callable, Iterable
from mmap import PROT_READ, mmap
from pathlib import Path
from typing import Protocol

from penstock.store.blob import ByteRange
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.counters import MANY_HITS
from penstock.store.cache.disk import explaining_disk_errors
from penstock.store.cache.entry import CacheEntry
from penstock.store.cache.policy import Run
from penstock.store.ranges import check_range, read_exactly


class Origin(Protocol):
    """Source of an entry's bytes. Its ``str`` is for messages."""

    @property
    def version(self) -> str: ...

    def get(self, start: int, end: int) -> memoryview:
        """Return exactly these bytes of the entry, the same in every process."""
        ...


class CachedBlob:
    """An entry (a ``Blob``), pinned until it is closed. In a forked child it pins anew when it is first used there.

    Args:
        path: Path of the entry's data.
        size: Size of the entry.
        origin: Source of missing bytes.
        patience: Seconds to wait for space.
        entry: Entry, if it is pinned already.

    Raises:
        CacheTooSmall: If the entry is larger than the bound.
        CacheInUse: If too much is pinned for the entry to fit.
    """

    def __init__(
        self, cache: NodeCache, path: Path, size: int, origin: Origin, patience: float, entry: CacheEntry | None = None
    ) -> None:
        self._entry: CacheEntry | None = None
        self._cache = cache
        self._origin = origin
        self._patience = patience
        self._hits = cache.counters.hits
        self.size = size
        self.path = path
        self._entry = entry
        if entry is None:
            cache.trim()
            with explaining_disk_errors(cache.root):
                self._entry = cache.pins.enter(self.path, size, patience)

    @property
    def version(self) -> str:
        return self._origin.version

    def readinto(self, buffer: memoryview, offset: int) -> None:
        entry = self._entry
        if entry is None or (fd := entry.data.fd) < 0:
            entry = self._live()
            fd = entry.data.fd
        if entry.complete or self._make_present(entry, buffer.nbytes, offset):
            hits = self._hits
            hits.append(read_exactly(fd, self.size, buffer, offset, self))
            if len(hits) >= MANY_HITS:
                self._cache.counters.flush()
        else:
            read_exactly(fd, self.size, buffer, offset, self)

    def _make_present(self, entry: CacheEntry, wanted: int, offset: int) -> bool:
        """Fetch missing bytes and count the wait. Returns whether no bytes were missing."""
        runs = self._missing(entry, offset, offset + wanted)
        if not runs:
            return True
        start = time.monotonic_ns()
        waited = self._cache.fetch_pool.run(self.fetch, runs)
        elapsed = time.monotonic_ns() - start
        self._cache.counters.add(misses=1, waits=int(waited), bytes_read=wanted, waited_ns=elapsed)
        return False

    def is_checked(self, start: int, end: int) -> bool:
        """Return whether any process called ``note_checked`` for exactly this range since it was fetched."""
        return self._live().is_checked(start, end)

    def note_checked(self, start: int, end: int) -> None:
        """Record that the bytes are right, for as long as they are in the cache."""
        self._live().note_checked(start, end)

    def fetch_again(self, start: int, end: int, is_right: Callable[[memoryview], bool]) -> bool:
        """Fetch bytes that look damaged once more, and replace them if the new ones are right.

        Returns:
            Whether the new bytes are right.
        """
        data = self._origin.get(start, end)
        if not is_right(data):
            return False
        self._live().repair(start, data)
        return True

    def missing(self, start: int, end: int) -> list[Run]:
        """Return the runs of missing parts of bytes start .. end-1."""
        return self._missing(self._live(), start, end)

    def fetch(self, run: Run) -> bool:
        """Fetch a run of parts. Returns whether others were fetching some of it."""
        entry = self._live()
        was_complete = entry.complete
        waited = entry.fetch(run, self._origin.get)
        if entry.complete and not was_complete and not entry.synced:
            self._cache.pins.sync(entry)
        return waited

    def fetch_whole(self) -> None:
        self.fetch_ranges([(0, self.size)])

    def fetch_ranges(self, ranges: Iterable[ByteRange]) -> None:
        """Fetch the missing parts of byte ranges, several at a time."""
        runs = dict.fromkeys(run for start, end in ranges for run in self.missing(start, end))
        self._cache.fetch_pool.run(self.fetch, list(runs))

    def mapped(self) -> mmap:
        """Return all bytes as a memory map; missing parts are zeros. Needs no path: the folder may be gone."""
        return mmap(self._live().data.fd, self.size, prot=PROT_READ)

    def close(self) -> None:
        """Unpin. The caller ensures that no other thread is still reading."""
        entry = self._entry
        self._entry = None
        if entry and entry.data.fd >= 0:  # else it was pinned by the process that this one was forked from
            self._cache.pins.leave(entry)

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if not exiting():  # at shutdown a dead thread may hold a lock, and the kernel unpins anyway
            self.close()

    def __str__(self) -> str:
        return str(self._origin)

    def _live(self) -> CacheEntry:
        entry = self._entry
        if entry is None:
            raise ValueError(f"read from {self} after it was closed")
        if entry.data.fd >= 0:
            return entry
        with self._cache.reopening, explaining_disk_errors(self._cache.root):
            if self._entry is entry:
                self._entry = self._cache.pins.enter(self.path, entry.size, self._patience)
            return self._entry or entry

    def _missing(self, entry: CacheEntry, start: int, end: int) -> list[Run]:
        check_range(self.size, end - start, start, self)
        return entry.missing(start, end)
