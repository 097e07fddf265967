"""Admission to the node cache, and LRU eviction. Knows sizes and times of use; not what the bytes are.

One flock guards admission and eviction. An account keeps an upper bound of the bytes in the cache. Only when it exceeds
the limit, all files are counted, and a little more than needed is evicted, so that this is rare. A process that is
killed at any line leaves, at worst, a cache that holds less than it could.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from penstock.runtime.owned import make_folders
from penstock.store.cache.account import CONTROL, Account, admission_lock
from penstock.store.cache.disk import DISK_FULL_ERRNOS, Space, explaining_disk_errors
from penstock.store.cache.entry import PIN, CacheEntry, evict, pin
from penstock.store.cache.locks import LockedFile
from penstock.store.cache.paths import SCHEMES, have_path, is_data
from penstock.store.cache.policy import Room, fits, make_room

_POLL_SECONDS = 0.05


class CacheTooSmall(RuntimeError):
    """The bound is smaller than the working set; ``enough`` is a sufficient bound in bytes."""

    def __init__(self, message: str, enough: int) -> None:
        super().__init__(message, enough)
        self.enough = enough

    def __str__(self) -> str:
        return str(self.args[0])


class CacheInUse(CacheTooSmall):
    """The object does not fit beside what is pinned now."""


class Resident(NamedTuple):
    """One object on disk. Sorts by last use. ``disk_bytes`` are less than ``size`` while parts are missing."""

    used_ns: int
    path: str
    size: int
    disk_bytes: int


class Admission:
    """Admits objects to one cache folder within a bound in bytes.

    Args:
        evicted: Function called with the size of each evicted object.

    Attributes:
        opening: Whether the run is still being opened. Objects larger than the bound are admitted until then, so that
            one error names the size that the whole run needs.
        largest: Size of the largest object requested so far.
    """

    def __init__(self, root: Path, max_bytes: int, part_bytes: int, evicted: Callable[[int], None]) -> None:
        self._root = root
        self._max_bytes = max_bytes
        self._part_bytes = part_bytes
        self._evicted = evicted
        self.opening = False
        self.largest = 0

    def enter(self, path: Path, size: int, patience: float) -> CacheEntry:
        """Pin an object and reserve its whole size.

        Args:
            patience: Seconds to wait while everything that could be evicted is pinned.

        Raises:
            CacheTooSmall: If the object is larger than the bound.
            CacheInUse: If too much is pinned for the object to fit.
        """
        self._require_one(size, path.name.rpartition("~")[0])
        until = time.monotonic() + patience
        while True:
            with explaining_disk_errors(self._root), admission_lock(self._root) as account:
                found = self._evicting_on_full_disk(lambda: self._pin_or_create(account, path, size))
            if isinstance(found, CacheEntry):
                return found
            pinned = found
            if time.monotonic() >= until:
                raise self._in_use(pinned, size, path.name.rpartition("~")[0])
            time.sleep(_POLL_SECONDS)

    def evict_for(self, size: int, what: str, patience: float) -> None:
        """Evict until ``size`` more bytes would fit. Nothing is reserved.

        Raises:
            CacheTooSmall: If they exceed the bound.
            CacheInUse: If too much is pinned.
        """
        self._require_one(size, what)
        until = time.monotonic() + patience
        while True:
            with explaining_disk_errors(self._root), admission_lock(self._root) as account:
                held, pinned = self._evict_for(account, size)
                account.set(held)
            if self._fits(held, size):
                return
            if time.monotonic() >= until:
                raise self._in_use(pinned, size, what)
            time.sleep(_POLL_SECONDS)

    def require(self, size: int, what: str) -> None:
        """Raise CacheTooSmall if ``size`` bytes exceed the bound. ``what`` is for the message."""
        if size > self._max_bytes:
            raise CacheTooSmall(self._complaint(size, what), enough=size)

    def _require_one(self, size: int, what: str) -> None:
        self.largest = max(self.largest, size)
        if not self.opening:
            self.require(size, what)

    def _fits(self, held: int, size: int) -> bool:
        return fits(held, size, self._max_bytes) or (self.opening and size > self._max_bytes)

    def require_disk(self, size: int, what: str) -> None:
        """Raise CacheTooSmall if ``size`` bytes exceed what the cache has on the disk and what is free there."""
        space = self.space(size)
        if size > space.total:
            raise CacheTooSmall(
                f"cache {self._root} has room on its disk for {space.total:,} bytes ({space.held:,} in it, "
                f"{space.free:,} free), but {what} needs {size:,}: free space, or use a larger disk",
                enough=size,
            )

    def space(self, wanted: int) -> Space:
        """Return the disk space for the cache. Exact if it is less than ``wanted``, else perhaps too low."""
        free = Space.free_under(self._root)
        if free >= wanted:  # nearly always: files need not be counted
            return Space(0, free)
        return Space(sum(resident.disk_bytes for resident in self.residents()), free)

    def trim(self) -> None:
        """Evict down to the bound, which may be smaller than that of the last run."""
        with admission_lock(self._root) as account:
            held, _ = self._evict_for(account, 0)
            account.set(held)

    def free_disk_space(self, nbytes: int) -> bool:
        """Evict the least recently used objects from a full disk until ``nbytes`` are free.

        Returns:
            Whether anything was evicted.
        """
        freed = 0
        with admission_lock(self._root) as account:
            residents = self.residents()
            total = sum(resident.size for resident in residents)
            for resident in residents:
                if freed >= nbytes:
                    break
                if resident.disk_bytes and self._evict(resident):
                    freed += resident.disk_bytes
                    total -= resident.size
            with contextlib.suppress(OSError):  # a bound that is too high is valid
                account.set(total)
        return freed > 0

    def clear(self) -> tuple[int, int]:
        """Evict all objects that are not pinned.

        Returns:
            Bytes removed, and bytes kept because they are pinned.
        """
        with admission_lock(self._root) as account:
            residents = self.residents()
            removed = sum(resident.size for resident in residents if self.remove(resident))
            kept = sum(resident.size for resident in residents) - removed
            with contextlib.suppress(OSError):  # a bound that is too high is valid
                account.set(kept)
        return removed, kept

    def remove(self, resident: Resident) -> bool:
        """Evict an object unless it is pinned, and remove empty folders. The caller holds the ``admission_lock``."""
        if not evict(resident.path):
            return False
        folder = os.path.dirname(resident.path)
        with contextlib.suppress(OSError):  # not empty
            while folder != str(self._root):
                os.rmdir(folder)
                folder = os.path.dirname(folder)
        return True

    def residents(self) -> list[Resident]:
        """Return all objects on disk, least recently used first."""
        folders = [folder for scheme in SCHEMES if os.path.isdir(folder := f"{self._root}/{scheme}")]
        return sorted(found for folder in folders for found in _walk(folder))

    def _in_use(self, pinned: int, size: int, what: str) -> CacheInUse:
        what = f"{what} beside {pinned:,} pinned bytes"
        return CacheInUse(self._complaint(pinned + size, what), enough=pinned + size)

    def _complaint(self, size: int, what: str) -> str:
        return (
            f"cache {self._root} may hold {self._max_bytes:,} bytes, but {what} needs {size:,}: "
            f"set its size to at least {size:,}"
        )

    def _evict_for(self, account: Account, size: int) -> Room:
        """Evict the least recently used objects if ``size`` more bytes would not fit."""
        return make_room(account.upper_bound(), size, self._max_bytes, self.residents, self._evict)

    def _evict(self, resident: Resident) -> bool:
        """Evict an object unless it is pinned, and count it."""
        removed = self.remove(resident)
        if removed:
            self._evicted(resident.size)
        return removed

    def _pin_or_create(self, account: Account, path: Path, size: int) -> CacheEntry | int:
        """Return the pinned entry; if there is no room for a new one, the number of pinned bytes."""
        if entry := pin(path, size, self._part_bytes):
            return entry
        held, pinned = self._evict_for(account, size)
        if not self._fits(held, size):
            account.set(held)
            return pinned
        account.set(held + size)
        return self._create(path, size)

    def _evicting_on_full_disk(self, attempt: Callable[[], CacheEntry | int]) -> CacheEntry | int:
        """Call ``attempt``; while the disk is too full for even a file name, evict one object and call it again."""
        while True:
            try:
                return attempt()
            except OSError as error:
                if error.errno not in DISK_FULL_ERRNOS or not self._evict_one():
                    raise

    def _evict_one(self) -> bool:
        return any(self._evict(resident) for resident in self.residents())

    def _create(self, path: Path, size: int) -> CacheEntry:
        """Create an entry under a fixed name, then rename it: it appears in full size, and a crash leaves one file."""
        make_folders(self._root, path.parent)
        aside = self._root / CONTROL / "entering"
        aside.unlink(missing_ok=True)  # what a killed process left, perhaps of another user of a shared cache
        data = LockedFile(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        os.ftruncate(data.fd, size)
        data.lock(PIN, shared=True)
        have = have_path(str(path))
        with contextlib.suppress(FileNotFoundError):  # marks of a data file that was removed by hand
            os.unlink(have)
        os.rename(aside, path)
        return CacheEntry(path, data, LockedFile(have, os.O_RDWR | os.O_CREAT), size, self._part_bytes)


def is_pinned(path: str) -> bool:
    """Return whether any process has the object pinned."""
    with LockedFile(path, os.O_RDWR) as data:
        return not data.lock(PIN, wait=False)


def _walk(folder: str) -> Iterator[Resident]:
    """Yield all objects in a folder, except those that are removed meanwhile."""
    try:
        found = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for each in found:
        if is_data(each.name) and each.is_file(follow_symlinks=False):
            with contextlib.suppress(FileNotFoundError):
                stat = each.stat(follow_symlinks=False)
                yield Resident(stat.st_mtime_ns, each.path, stat.st_size, stat.st_blocks * 512)
        elif each.is_dir(follow_symlinks=False):
            yield from _walk(each.path)
