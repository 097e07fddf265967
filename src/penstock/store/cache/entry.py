"""One entry of the node cache, fetched part by part. Knows files and locks; not keys, stores or bounds.

    shard.tar~9f8e.data   the object, sparse, of full size from the start: its size is its reservation
    shard.tar~9f8e.have   one byte per part: 1 when the part is there; one more: 1 when the object is synced to disk;
                          then the ranges (start, end) that a reader has checked

    bytes locked in .data:   i       part i is being fetched (write lock)
                             PIN     the object is in use (read lock); being evicted (write lock)
                             SYNC    the object is being synced to disk

A process that fetches waits for no part while it holds one, so there is no deadlock; on a full disk it waits for the
admission lock, whose holder waits for nothing. When it dies, the kernel frees its lock, and a process that waits for
the part takes over. When it is stopped, a process that waits fetches the part, too: both write the same bytes.
"""

import contextlib
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from penstock.store.cache.disk import DISK_FULL_ERRNOS, explaining_disk_errors
from penstock.store.cache.locks import LockedFile
from penstock.store.cache.lockwait import lock_in_time
from penstock.store.cache.paths import have_path
from penstock.store.cache.policy import Run, missing_runs

PIN = 1 << 62
SYNC = PIN + 1
_RANGE = struct.Struct("<QQ")

Get = Callable[[int, int], "bytes | memoryview"]  # bytes start .. end-1 of the object, exactly


class CacheEntry:
    """An object that this process has pinned. Any number of threads may read and fetch at once.

    ``free_disk_space`` is called with a number of bytes that do not fit on the disk; it returns whether it removed
    something, so that another try makes sense.
    """

    def __init__(self, path: Path, data: LockedFile, have: LockedFile, size: int, part_bytes: int) -> None:
        self.free_disk_space: Callable[[int], bool] = lambda _: False
        self.path = path
        self.data = data  # for reading; its descriptor is -1 in a child that was forked with it
        self.size = size
        self.part_bytes = part_bytes
        self.parts = -(-size // part_bytes)
        self.users = 1
        self._have = have
        self._marks = b""
        self._checked: set[tuple[int, int]] = set()
        self._checked_up_to = self.parts + 1  # bytes of .have
        self.complete = False
        self.look()

    @property
    def synced(self) -> bool:
        return len(self._marks) > self.parts and self._marks[self.parts] == 1

    @property
    def present(self) -> int:
        """Number of bytes that were fetched."""
        there = self._marks[: self.parts]
        short = self.parts * self.part_bytes - self.size if there[self.parts - 1 :] == b"\1" else 0
        return there.count(1) * self.part_bytes - short

    def look(self) -> None:
        """Read the marks again. While the object is pinned, parts are only added."""
        marks = os.pread(self._have.fd, self.parts + 1, 0)
        self._marks = marks
        if marks.count(1, 0, self.parts) == self.parts:
            self.complete = True  # never unset: another thread's look may be older

    def missing(self, start: int, end: int) -> list[Run]:
        """Return the runs of parts to fetch for bytes start .. end-1, none longer than one request."""
        if self.complete or start >= end:
            return []
        first = start // self.part_bytes
        last = -(-end // self.part_bytes)
        if 0 not in self._known(first, last):
            return []
        self.look()
        return list(self._gaps(first, last))

    def fetch(self, run: Run, get: Get) -> bool:
        """Fetch the parts of a run that are missing.

        Returns:
            Whether it waited for others that were fetching some of them.
        """
        parts = list(range(*run))
        with self.data.again(os.O_RDWR) as lock:  # its own open file description, so that threads exclude each other
            busy = self._sweep(lock, parts, get, wait=False)
            self._sweep(lock, busy, get, wait=True)
        return bool(busy)

    def sync(self) -> None:
        """Sync a complete object to disk and then mark it. After a crash of the machine only the mark is trusted."""
        if self.complete and not self.synced and self.data.lock(SYNC, wait=False):
            os.fdatasync(self.data.fd)
            os.pwrite(self._have.fd, b"\1", self.parts)
            os.fdatasync(self._have.fd)

    def is_checked(self, start: int, end: int) -> bool:
        """Return whether any process has checked exactly this range since it was fetched."""
        if (start, end) not in self._checked:
            size = os.fstat(self._have.fd).st_size
            new = os.pread(self._have.fd, max(0, size - self._checked_up_to), self._checked_up_to)
            whole = len(new) // _RANGE.size * _RANGE.size
            self._checked.update(_RANGE.iter_unpack(new[:whole]))
            self._checked_up_to += whole
        return (start, end) in self._checked

    def note_checked(self, start: int, end: int) -> None:
        """Record that these bytes are right, for as long as they are in the cache. Lost on a full disk."""
        self._checked.add((start, end))
        with contextlib.suppress(OSError):
            beyond_marks = os.fstat(self._have.fd).st_size - (self.parts + 1)
            if beyond_marks < 0 or beyond_marks % _RANGE.size:  # or a note that a full disk cut
                os.ftruncate(self._have.fd, self.parts + 1 + max(0, beyond_marks // _RANGE.size * _RANGE.size))
            with self._have.again(os.O_WRONLY | os.O_APPEND) as log:
                os.write(log.fd, _RANGE.pack(start, end))

    def repair(self, start: int, right: bytes | memoryview) -> None:
        """Replace wrong bytes and sync them: the mark that the object is synced may be set already."""
        os.pwrite(self.data.fd, right, start)
        os.fdatasync(self.data.fd)

    def touch(self, now: int) -> None:
        """Record the time of use in nanoseconds, for LRU eviction."""
        try:
            os.utime(self.data.fd, ns=(now, now))
        except PermissionError:  # another user's, in a shared cache: only the present moment may be set, less exactly
            os.utime(self.data.fd)

    def close(self) -> None:
        self._have.close()
        self.data.close()

    def _known(self, first: int, last: int) -> bytes:
        return self._marks[first : min(last, self.parts)].ljust(last - first, b"\0")

    def _gaps(self, first: int, last: int) -> Iterator[Run]:
        return missing_runs(self._known(first, last), first, self.part_bytes)

    def _sweep(self, lock: LockedFile, parts: Sequence[int], get: Get, wait: bool) -> list[int]:
        """Fetch the parts that can be locked, adjacent ones together.

        Returns:
            Parts that others are fetching; empty if ``wait``.
        """
        busy = []
        at = 0
        while at < len(parts):
            first = parts[at]
            end = first + _adjacent(parts, at)
            last = _lock_first(lock, first, end)
            if last == first and wait:
                lock_in_time(lock, first, partial(self._has, first), f"part {first} of {self.path.name}")
                last += 1
            if last == first:
                busy.append(first)
                at += 1
                continue
            at += last - first
            try:
                self.look()  # again, now that no other process that runs can fetch them
                for gap in list(self._gaps(first, last)):
                    self._download(lock.fd, gap, get)
            finally:
                lock.unlock(first, last - first)
        return busy

    def _download(self, fd: int, run: Run, get: Get) -> None:
        start = run[0] * self.part_bytes
        end = min(run[1] * self.part_bytes, self.size)
        left = memoryview(get(start, end)).cast("B")
        with explaining_disk_errors(self.path.parent):
            while left:
                count = self._write(fd, left, start)
                left = left[count:]
                start += count
            self._write(self._have.fd, b"\1" * (run[1] - run[0]), run[0])  # after the data: marked parts are present
        self.look()

    def _write(self, fd: int, data: bytes | memoryview, at: int) -> int:
        """Write to a file of this entry. On a full disk, evict other objects while there are any."""
        while True:
            try:
                return os.pwrite(fd, data, at)
            except OSError as error:
                if error.errno not in DISK_FULL_ERRNOS or not self.free_disk_space(len(data)):
                    raise

    def _has(self, part: int) -> bool:
        self.look()
        return self._known(part, part + 1) == b"\1"


def pin(path: Path, size: int, part_bytes: int) -> CacheEntry | None:
    """Pin an object if it is in the cache, so that it is not evicted until the entry is closed.

    Returns:
        None if the object is not in the cache, or has another size.
    """
    while True:
        try:
            data = LockedFile(path, os.O_RDWR)
        except FileNotFoundError:
            return None
        data.lock(PIN, shared=True)
        # It may have been evicted between the open and the lock, or truncated from outside.
        if os.fstat(data.fd).st_nlink and os.fstat(data.fd).st_size == size:
            have = LockedFile(have_path(str(path)), os.O_RDWR | os.O_CREAT)
            return CacheEntry(path, data, have, size, part_bytes)
        gone = os.fstat(data.fd).st_nlink == 0
        data.close()
        if not gone:
            return None


def sync_entry(path: Path, size: int, part_bytes: int) -> None:
    """Sync an object to disk and mark it, if it is still in the cache. It is pinned meanwhile."""
    entry = pin(path, size, part_bytes)
    if entry is not None:
        try:
            entry.sync()
        finally:
            entry.close()


def evict(path: str) -> bool:
    """Remove an object unless it is pinned. The marks go first, so that they never outlive the data.

    Returns:
        Whether it was removed.
    """
    with LockedFile(path, os.O_RDWR) as data:
        if not data.lock(PIN, wait=False):
            return False
        for name in (have_path(path), path):
            try:
                os.unlink(name)
            except FileNotFoundError:
                pass
        return True


def _adjacent(parts: Sequence[int], at: int) -> int:
    """Return how many parts from index ``at`` on are adjacent."""
    count = 1
    while at + count < len(parts) and parts[at + count] == parts[at] + count:
        count += 1
    return count


def _lock_first(lock: LockedFile, first: int, end: int) -> int:
    """Lock parts from ``first`` on, up to ``end`` or the first that others are fetching. Returns where it stopped."""
    if lock.lock(first, end - first, wait=False):
        return end
    last = first
    while last < end and lock.lock(last, wait=False):
        last += 1
    return last
