"""The node cache: a folder of entries on a local disk, shared by every process of the node, within a bound.

An entry is an object of a remote store, a range of one, or something that was made from one. The cache knows entries by
their paths; ``parts`` handles the files and ``admission`` the bound. There is no daemon: processes coordinate by kernel
locks, which are freed when a process dies, so nothing has to be cleaned up.
"""

import contextlib
import logging
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from penstock.runtime.atomicwrite import write_atomically
from penstock.runtime.boot import this_boot
from penstock.runtime.forking import reset_in_children
from penstock.runtime.owned import check_below, check_owner, make_folders, own_folder
from penstock.store.cache.account import CONTROL, admission_lock
from penstock.store.cache.admission import Admission
from penstock.store.cache.counters import Counters, fold_dead_processes
from penstock.store.cache.disk import explaining_disk_errors
from penstock.store.cache.fetchpool import FetchPool
from penstock.store.cache.locks import is_free
from penstock.store.cache.paths import have_path
from penstock.store.cache.pins import Pins
from penstock.store.cache.policy import EVICTED_TIME
from penstock.store.cache.spacerequests import SpaceRequests

PART_BYTES = 1 << 18
BUILDING = "building"  # locks of entries that are being made, see ``derived``
_log = logging.getLogger("penstock.cache")
OPEN_FILES = 65_536  # an entry in use is two open files
LOST_AND_FOUND = "lost+found"  # in the top folder of a fresh disk


class NodeCache:
    """A folder with at most ``max_bytes`` of entries. Many processes may use one folder, one process several folders.

    Nothing is evicted when a cache is opened, so that a run that is refused for its bound leaves the cache as it was.

    Args:
        folder: Folder of the cache. Created for this user alone if it does not exist.
        max_bytes: Bound of the entries' bytes. Marks take one more byte per part and 16 bytes per checked range.
        part_bytes: Smallest amount that is fetched. Fixed by the first user of the folder.
        concurrency: Maximum number of concurrent requests for one read.
        patience: Seconds that an open waits for space while everything that could be evicted is pinned.
        group: Name of a group of users that share the folder.
        clock: Returns the time of use in nanoseconds, for LRU eviction. Not pickled.

    Raises:
        ValueError: If the folder contains other files, or has another ``part_bytes``.
        CacheDiskError: If the folder cannot be used; the message says why.
        NotOwned: If another user may have written into the folder.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        max_bytes: int,
        part_bytes: int | None = None,
        concurrency: int = 8,
        patience: float = 60.0,
        group: str | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.root = Path(folder).resolve()
        with explaining_disk_errors(self.root):
            require_cache_folder(self.root)
            own_folder(self.root, group)
        self._set_up(max_bytes, part_bytes, concurrency, patience, clock)
        self._group = group
        self._check_disk()
        _raise_file_limit()

    @classmethod
    def as_it_is(
        cls, folder: str | os.PathLike[str], max_bytes: int = sys.maxsize, part_bytes: int | None = None
    ) -> "NodeCache":
        """Open an existing cache for inspection, without checks of its owner and its disk."""
        cache = cls.__new__(cls)
        cache.root = Path(folder).resolve()
        cache._group = None
        cache._set_up(max_bytes, part_bytes, 1, 0.0)
        return cache

    def _set_up(
        self,
        max_bytes: int,
        part_bytes: int | None,
        concurrency: int,
        patience: float,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.max_bytes = max_bytes
        self.patience = patience
        control = self.root / CONTROL
        with explaining_disk_errors(self.root):
            make_folders(self.root, control / "counters")
            check_below(control)
            self.part_bytes = _agree_on_parts(self.root, part_bytes)
            self.counters = Counters(control / "counters")
            self.admission = Admission(self.root, max_bytes, self.part_bytes, self._count_eviction)
            drop_unsynced(self.root, self.admission, self.part_bytes, this_boot())
            fold_dead_processes(control / "counters")
            for each in (control / BUILDING).glob("*"):  # left by killed processes
                if is_free(each):
                    each.unlink(missing_ok=True)
        self.space_requests = SpaceRequests(control / "room_wanted")
        self.fetch_pool = FetchPool(concurrency)
        self.pins = Pins(self.admission, self.part_bytes, clock)
        self._trimmed = False
        self.reset_locks()
        reset_in_children(self)

    def require(self, working_set: int) -> None:
        """Check at the start of a run that ``working_set`` bytes fit, then evict down to the bound.

        Raises:
            CacheTooSmall: If they exceed the bound or the disk.
        """
        what = "the working set of the run"
        needed = max(working_set, self.admission.largest)
        self.admission.require(needed, what)
        self.admission.require_disk(needed, what)
        self.admission.opening = False
        self.trim()

    def trim(self) -> None:
        """Evict down to the bound, once: it may be smaller than in the last run."""
        if not self._trimmed:
            with explaining_disk_errors(self.root):
                self.admission.trim()
            self._trimmed = True

    def evict_first(self, path: Path) -> None:
        """Mark an entry as least recently used."""
        with contextlib.suppress(FileNotFoundError, PermissionError):  # PermissionError: another user's
            os.utime(path, ns=(EVICTED_TIME, EVICTED_TIME))

    def close(self) -> None:
        """Stop this process's threads and close its counters. Open blobs stay open."""
        self.fetch_pool.close()
        self.pins.close()
        self.counters.close()

    def reset_after_fork(self) -> None:
        """Reset in a forked child: it has none of its parent's threads, pins and counts, and its locks may be held."""
        self.fetch_pool.reset()
        self.pins.reset()
        self.counters.reset()
        self.reset_locks()

    def reset_locks(self) -> None:
        """Make new locks: no thread of this process can hold one."""
        self.reopening = threading.Lock()

    def __reduce__(self) -> tuple[type["NodeCache"], tuple[object, ...]]:
        return NodeCache, (self.root, self.max_bytes, self.part_bytes, self.fetch_pool.size, self.patience, self._group)

    def _count_eviction(self, size: int) -> None:
        self.counters.add(evictions=1, bytes_evicted=size)

    def _check_disk(self) -> None:
        space = self.admission.space(self.max_bytes)
        if space.total < self.max_bytes:
            _log.warning(
                "cache %s may hold %s bytes, but its disk has room for %s (%s in it, %s free): it will evict when the "
                "disk is full; set cache.size to less",
                self.root,
                f"{self.max_bytes:,}",
                f"{space.total:,}",
                f"{space.held:,}",
                f"{space.free:,}",
            )


def own_control_folder(folder: Path, group: str | None) -> Path:
    """Return the cache's folder for data kept between runs, after a check that no other user wrote to it.

    Args:
        folder: Folder of the cache. It need not exist: planning needs no cache.
        group: Name of a group of users that share the cache.
    """
    root = folder.resolve()
    control = root / CONTROL
    with explaining_disk_errors(root):
        if group:
            own_folder(root, group)
            make_folders(root, control)
        if control.is_dir():
            check_owner(root)
            check_owner(control)
            check_below(control)
    return control


def require_cache_folder(root: Path) -> None:
    """Raise ValueError if a folder contains other files: a cache starts in an empty folder."""
    # Listed before the note is looked for: another process writes its note of the part size first.
    foreign = sorted({each.name for each in root.iterdir()} - {CONTROL, LOST_AND_FOUND}) if root.is_dir() else []
    if foreign and not (root / CONTROL / "part_bytes").exists():
        raise ValueError(
            f"cache {root} is not a node cache and contains other files ({foreign[0]}); nothing in it was changed: "
            "give the cache a folder of its own"
        )


def _agree_on_parts(root: Path, asked: int | None) -> int:
    """Return the part size of this folder, which all its users share because marks depend on it."""
    note = root / CONTROL / "part_bytes"
    with admission_lock(root):
        if not note.exists():
            write_atomically(note, [str(asked or PART_BYTES).encode()])
    found = int(note.read_text())
    if asked not in (None, found):
        raise ValueError(
            f"cache {root} has parts of {found:,} bytes, not {asked:,}: use that part size, or another folder"
        )
    return found


def _raise_file_limit() -> None:
    """Raise the soft limit of open files, as far as the hard limit allows: it is often 1,024 without a reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def drop_unsynced(root: Path, admission: Admission, part_bytes: int, boot_id: str) -> None:
    """Drop objects that are not complete and synced, once per boot, before anything is read.

    A mark may reach the disk before the bytes that it is about. The death of a process is harmless.

    Args:
        boot_id: Identifier of this boot. If the cache was already used in it, nothing is done.
    """
    note = root / CONTROL / "boot"
    if note.exists() and note.read_text() == boot_id:
        return
    with admission_lock(root) as account:
        if note.exists() and note.read_text() == boot_id:
            return
        for resident in admission.residents():
            if not _is_synced(resident.path, -(-resident.size // part_bytes)):
                admission.remove(resident)
        with contextlib.suppress(OSError):  # a full disk: the next process does it again
            account.invalidate()
            write_atomically(note, [boot_id.encode()])


def _is_synced(path: str, parts: int) -> bool:
    try:
        marks = Path(have_path(path)).read_bytes()
    except FileNotFoundError:
        return False
    return marks[: parts + 1] == b"\1" * (parts + 1)  # notes may come after
