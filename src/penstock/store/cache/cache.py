"""The node cache: objects of remote stores on a local disk, shared by every process of the node, within a bound.

Knows keys, versions and who reads; the files are the business of ``parts``, the bound that of ``admission``. Nothing
runs but its users, and all they hold is held by the kernel for them, so nothing is left to clean after any of them.
"""

import contextlib
import os
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
from penstock.store.exact import check_range, fill
from penstock.store.remote.remote import ObjectChanged, ObjectInfo, Remote

PART_BYTES = 1 << 20
LOST_AND_FOUND = "lost+found"  # in the top folder of a fresh disk


class NodeCache:
    """A folder of at most ``max_bytes`` of objects. Many processes may use one folder, one process several folders.

    ``part_bytes`` is the least that is fetched; whoever uses the folder first fixes it. ``concurrency`` is how many
    requests one read of many parts makes at once. ``patience`` is how many seconds an open waits while all that is in
    its way is in use. The bound is on the objects' bytes; on top come a mark of a byte a part and
    notes of what was checked, of up to one byte per 512.
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
        self.crew = Crew(concurrency)
        self.pins = Pins(self.admission, self.part_bytes)
        self._retries: weakref.WeakKeyDictionary[Remote, int] = weakref.WeakKeyDictionary()
        self._lock, self.reopening = threading.Lock(), threading.Lock()
        reset_in_children(self)

    def open(
        self, remote: Remote, key: str, known: ObjectInfo | None = None, patience: float | None = None
    ) -> "CachedBlob":
        """The object, pinned until closed. With a ``known`` size and ETag the store is asked only for missing bytes."""
        return CachedBlob(self, remote, key, known or remote.head(key), self.patience if patience is None else patience)

    def require(self, working_set: int) -> None:
        """Fail at the start of a run, not in its middle, if ``working_set`` bytes cannot be in use at once."""
        self.admission.require(working_set, "what a run has in use at once")

    def leave_first(self, remote: Remote, key: str, info: ObjectInfo) -> None:
        """Make the object the first that is evicted, unless someone uses it after this."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.root / object_path(remote.url, key, info.etag), ns=(1, 1))

    def ask_for_room(self) -> None:
        """Tell all processes of the node that a reader finds no room: who has pinned for later lets go."""
        (self.root / CONTROL / "room_wanted").touch()

    def room_wanted(self) -> int:
        """When room was last asked for; 0 for never."""
        try:
            return os.stat(self.root / CONTROL / "room_wanted").st_mtime_ns
        except FileNotFoundError:
            return 0

    def new_retries(self, remote: Remote) -> int:
        """How many requests were sent again since this was last asked."""
        with self._lock:
            total = remote.retries
            new = total - self._retries.get(remote, 0)
            self._retries[remote] = total
        return new

    def close(self) -> None:
        """End the threads of this process and its account. Blobs that are open stay open."""
        self.crew.close()
        self.pins.close()
        self.counters.close()

    def reset_after_fork(self) -> None:
        """A child has none of its parent's threads, pins and counts, and perhaps a lock of it in mid-use."""
        self.crew.reset()
        self.pins.reset()
        self.counters.reset()
        self._retries.clear()
        self._lock, self.reopening = threading.Lock(), threading.Lock()

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
        """Whether all bytes were here already; if not, they are now, and what that took is counted."""
        runs = self._missing(entry, offset, offset + wanted)
        if not runs:
            return True
        start = time.monotonic_ns()
        waited = self._cache.crew.run(self.fetch, runs)
        elapsed = time.monotonic_ns() - start
        self._cache.counters.add(misses=1, waits=int(waited), bytes_read=wanted, waited_ns=elapsed)
        return False

    def noted(self, note: int) -> bool:
        """Whether this note was taken of the bytes that are here; it goes when they go."""
        return self._live().noted(note)

    def take_note(self, note: int) -> None:
        self._live().take_note(note)

    def fetch_again(self, start: int, end: int, is_right: Callable[[memoryview], bool]) -> bool:
        """Ask the store once more for bytes that look damaged; if what comes is right, it takes their place."""
        data = self._get(start, end)
        if not is_right(data):
            return False
        self._live().repair(start, data)
        return True

    def missing(self, start: int, end: int) -> list[Run]:
        """The runs of parts that bytes start .. end-1 still need."""
        return self._missing(self._live(), start, end)

    def fetch(self, run: Run) -> bool:
        """Make a run be here; True if others were fetching some of it."""
        entry = self._live()
        was_complete = entry.complete
        waited = entry.fetch(run, self._get)
        if entry.complete and not was_complete and not entry.sealed:
            self._cache.pins.seal(entry)
        return waited

    def fetch_whole(self) -> None:
        self._cache.crew.run(self.fetch, self.missing(0, self.size))

    def close(self) -> None:
        """Unpin. The caller sees to it that no other thread is still reading."""
        entry, self._entry = self._entry, None
        if entry:
            self._cache.pins.leave(entry)

    def __del__(self) -> None:
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
                f"{self}: bytes {start}..{end} of {self.size} were asked for and {len(data)} came: the object is "
                "shorter than it was said to be; list or index it again"
            )
        retries = self._cache.new_retries(self._remote)
        self._cache.counters.add(requests=1, bytes_fetched=len(data), retries=retries)
        return data


def _refuse_what_is_no_cache(root: Path) -> None:
    """Leave alone a folder that holds someone's files: a cache begins in an empty one, or one of its own notes."""
    # Listed first: what another process puts there meanwhile comes after its note of the part size.
    foreign = sorted({each.name for each in root.iterdir()} - {CONTROL, LOST_AND_FOUND}) if root.exists() else []
    if foreign and not (root / CONTROL / "part_bytes").exists():
        raise ValueError(
            f"cache {root} is no node cache yet and holds other files ({foreign[0]}): nothing in it was touched; "
            "give the cache a folder of its own"
        )


def _agree_on_parts(root: Path, asked: int | None) -> int:
    """The part size of this folder: marks mean nothing without it, so all users must have the same."""
    note = root / CONTROL / "part_bytes"
    with alone(root):
        if not note.exists():
            write_aside(note, [str(asked or PART_BYTES).encode()])
    found = int(note.read_text())
    if asked not in (None, found):
        raise ValueError(f"cache {root} has parts of {found:,} bytes, not {asked:,}: use that, or another folder")
    return found
