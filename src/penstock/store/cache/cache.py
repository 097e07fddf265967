"""The node cache: objects of remote stores on a local disk, shared by every process of the node, within a bound.

Knows keys, versions and readers; ``parts`` handles the files and ``admission`` the bound. There is no daemon: processes
coordinate by kernel locks, which are freed when a process dies, so nothing has to be cleaned up.
"""

import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from penstock.runtime.aside import write_aside
from penstock.runtime.boot import this_boot
from penstock.runtime.forking import reset_in_children
from penstock.store.cache.admission import CONTROL, Admission, alone
from penstock.store.cache.counters import MANY_HITS, Counters, fold
from penstock.store.cache.crew import Crew
from penstock.store.cache.disk import speaking_of
from penstock.store.cache.parts import Entry, Run
from penstock.store.cache.paths import object_path
from penstock.store.cache.pins import Pins
from penstock.store.cache.reboot import drop_unsynced
from penstock.store.cache.room import Room
from penstock.store.exact import check_range, fill
from penstock.store.remote.remote import ObjectChanged, ObjectInfo, Remote

PART_BYTES = 1 << 20
LOST_AND_FOUND = "lost+found"  # in the top folder of a fresh disk


class NodeCache:
    """A folder with at most ``max_bytes`` of objects. Many processes may use one folder, one process several folders.

    Args:
        folder: created if it does not exist.
        max_bytes: bound of the objects' bytes. Marks take one more byte per part and 16 bytes per checked range.
        part_bytes: the smallest amount that is fetched. Fixed by the first user of the folder.
        concurrency: requests at once for one read of many parts.
        patience: seconds that an open waits for room while everything that could be evicted is in use.

    Raises:
        ValueError: the folder has other files in it, or another ``part_bytes``.
        CacheDiskError: the folder cannot be used; the message says why.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        max_bytes: int,
        part_bytes: int | None = None,
        concurrency: int = 8,
        patience: float = 60.0,
    ) -> None:
        self.root = Path(folder).absolute()
        self.max_bytes = max_bytes
        self.patience = patience
        with speaking_of(self.root):
            _refuse_what_is_no_cache(self.root)
            (self.root / CONTROL / "counters").mkdir(parents=True, exist_ok=True)
            self.part_bytes = _agree_on_parts(self.root, part_bytes)
            self.counters = Counters(self.root / CONTROL / "counters")
            self.admission = Admission(self.root, max_bytes, self.part_bytes, self._count_eviction)
            drop_unsynced(self.root, self.admission, self.part_bytes, this_boot())
            self.admission.trim()
            fold(self.root / CONTROL / "counters")
        self.room = Room(self.root / CONTROL / "room_wanted")
        self.crew = Crew(concurrency)
        self.pins = Pins(self.admission, self.part_bytes)
        self._retries: weakref.WeakKeyDictionary[Remote, int] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self.reopening = threading.Lock()
        reset_in_children(self)

    def open(
        self, remote: Remote, key: str, known: ObjectInfo | None = None, patience: float | None = None
    ) -> "CachedBlob":
        """Open an object and pin it until it is closed.

        Args:
            known: size and ETag, if known; else the store is asked.
            patience: seconds to wait for room; by default the cache's own.

        Raises:
            CacheTooSmall: the object is larger than the bound.
            CacheInUse: too much is pinned for the object to fit.
        """
        return CachedBlob(self, remote, key, known or remote.head(key), self.patience if patience is None else patience)

    def open_if_complete(self, remote: Remote, key: str, known: ObjectInfo) -> "CachedBlob | None":
        """Open and pin an object if all of it is here, else return None. Nothing is reserved for a missing one."""
        if not (self.root / object_path(remote.url, key, known.etag)).exists():
            return None
        blob = self.open(remote, key, known, patience=0)
        if blob.missing(0, blob.size):
            blob.close()
            return None
        return blob

    def require(self, working_set: int) -> None:
        """Raise CacheTooSmall if ``working_set`` bytes cannot be in use at once. Called at the start of a run."""
        self.admission.require(working_set, "what a run has in use at once")

    def leave_first(self, remote: Remote, key: str, info: ObjectInfo) -> None:
        """Make the object the first to be evicted, unless it is used again."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.root / object_path(remote.url, key, info.etag), ns=(1, 1))

    def new_retries(self, remote: Remote) -> int:
        """Return how many requests were retried since the last call."""
        with self._lock:
            total = remote.retries
            new = total - self._retries.get(remote, 0)
            self._retries[remote] = total
        return new

    def close(self) -> None:
        """End this process's threads and its counters' file. Open blobs stay open."""
        self.crew.close()
        self.pins.close()
        self.counters.close()

    def reset_after_fork(self) -> None:
        """Start anew in a child: it has none of its parent's threads, pins and counts, and its locks may stay held."""
        self.crew.reset()
        self.pins.reset()
        self.counters.reset()
        self._retries.clear()
        self._lock = threading.Lock()
        self.reopening = threading.Lock()

    def __reduce__(self) -> tuple[type["NodeCache"], tuple[object, ...]]:
        return NodeCache, (self.root, self.max_bytes, self.part_bytes, self.crew.size, self.patience)

    def _count_eviction(self, size: int) -> None:
        self.counters.add(evictions=1, bytes_evicted=size)


class CachedBlob:
    """One version of one object (a ``Blob``). In a forked child it pins anew when it is first used there."""

    def __init__(self, cache: NodeCache, remote: Remote, key: str, info: ObjectInfo, patience: float) -> None:
        self._entry: Entry | None = None
        self._cache = cache
        self._remote = remote
        self._key = key
        self._info = info
        self._patience = patience
        self._hits = cache.counters.hits
        self.path = cache.root / object_path(remote.url, key, info.etag)
        with speaking_of(cache.root):
            self._entry = cache.pins.enter(self.path, info.size, patience)

    @property
    def size(self) -> int:
        return self._info.size

    @property
    def version(self) -> str:
        return self._info.etag

    def readinto(self, buffer: memoryview, offset: int) -> None:
        entry = self._entry
        if entry is None or (fd := entry.data.fd) < 0:
            entry = self._live()
            fd = entry.data.fd
        if entry.complete or self._make_present(entry, buffer.nbytes, offset):
            hits = self._hits
            hits.append(fill(fd, entry.size, buffer, offset, self))
            if len(hits) >= MANY_HITS:
                self._cache.counters.flush()
        else:
            fill(fd, entry.size, buffer, offset, self)

    def _make_present(self, entry: Entry, wanted: int, offset: int) -> bool:
        """Fetch missing bytes and count the wait. Returns whether all bytes were here already."""
        runs = self._missing(entry, offset, offset + wanted)
        if not runs:
            return True
        start = time.monotonic_ns()
        waited = self._cache.crew.run(self.fetch, runs)
        elapsed = time.monotonic_ns() - start
        self._cache.counters.add(misses=1, waits=int(waited), bytes_read=wanted, waited_ns=elapsed)
        return False

    def is_checked(self, start: int, end: int) -> bool:
        """Whether ``note_checked`` was called for exactly this range since it was fetched, in any process."""
        return self._live().is_checked(start, end)

    def note_checked(self, start: int, end: int) -> None:
        """Remember that the bytes are right, for as long as they are in the cache."""
        self._live().note_checked(start, end)

    def fetch_again(self, start: int, end: int, is_right: Callable[[memoryview], bool]) -> bool:
        """Fetch bytes that look damaged once more, and replace them if the new ones are right.

        Returns:
            Whether the new bytes are right.
        """
        data = self._get(start, end)
        if not is_right(data):
            return False
        self._live().repair(start, data)
        return True

    def missing(self, start: int, end: int) -> list[Run]:
        """The runs of parts that bytes start .. end-1 still need."""
        return self._missing(self._live(), start, end)

    def fetch(self, run: Run) -> bool:
        """Fetch a run of parts. Returns whether others were fetching some of it."""
        entry = self._live()
        was_complete = entry.complete
        waited = entry.fetch(run, self._get)
        if entry.complete and not was_complete and not entry.sealed:
            self._cache.pins.seal(entry)
        return waited

    def fetch_whole(self) -> None:
        self._cache.crew.run(self.fetch, self.missing(0, self.size))

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
        return f"{self._remote.url}/{self._key}"

    def _live(self) -> Entry:
        entry = self._entry
        if entry is None:
            raise ValueError(f"read from {self} after it was closed")
        if entry.data.fd >= 0:
            return entry
        with self._cache.reopening, speaking_of(self._cache.root):
            if self._entry is entry:
                self._entry = self._cache.pins.enter(self.path, self.size, self._patience)
            return self._entry or entry

    def _missing(self, entry: Entry, start: int, end: int) -> list[Run]:
        check_range(entry.size, end - start, start, self)
        return entry.missing(start, end)

    def _get(self, start: int, end: int) -> memoryview:
        data = self._remote.get_range(self._key, start, end, self._info.etag).cast("B")
        if len(data) != end - start:
            raise ObjectChanged(
                f"{self}: bytes {start}..{end} of {self.size} were requested and {len(data)} received: the object is "
                "shorter than its known size; list or index it again"
            )
        retries = self._cache.new_retries(self._remote)
        self._cache.counters.add(requests=1, bytes_fetched=len(data), retries=retries)
        return data


def _refuse_what_is_no_cache(root: Path) -> None:
    """Refuse a folder with other files in it: a cache starts in an empty folder."""
    # Listed before the note is looked for: another process writes its note of the part size first.
    foreign = sorted({each.name for each in root.iterdir()} - {CONTROL, LOST_AND_FOUND}) if root.exists() else []
    if foreign and not (root / CONTROL / "part_bytes").exists():
        raise ValueError(
            f"cache {root} is not a node cache and contains other files ({foreign[0]}); nothing in it was changed: "
            "give the cache a folder of its own"
        )


def _agree_on_parts(root: Path, asked: int | None) -> int:
    """Return the part size of this folder. Marks depend on it, so all users must have the same."""
    note = root / CONTROL / "part_bytes"
    with alone(root):
        if not note.exists():
            write_aside(note, [str(asked or PART_BYTES).encode()])
    found = int(note.read_text())
    if asked not in (None, found):
        raise ValueError(
            f"cache {root} has parts of {found:,} bytes, not {asked:,}: use that part size, or another folder"
        )
    return found
