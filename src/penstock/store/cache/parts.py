"""One object in the node cache, arriving part by part. Knows files and locks; not keys, stores or bounds.

    shard.tar~9f8e.data   the object, sparse, of full size from the start: its size is its reservation
    shard.tar~9f8e.have   one byte per part: 1 when the part is there; one more: 1 when the object is synced to disk;
                          then the ranges (start, end) that a reader has checked

    bytes locked in .data:   i       part i is being fetched (write lock)
                             PIN     the object is in use (read lock); being evicted (write lock)
                             SEAL    the object is being synced to disk

A process that fetches never waits for a lock while it holds one, so there is no deadlock. When it dies, the kernel
frees its lock and a process that waits for the part takes over.
"""

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from penstock.store.cache.disk import speaking_of
from penstock.store.cache.locks import Held
from penstock.store.cache.paths import have_path

PIN = 1 << 62
SEAL = PIN + 1
# Adjacent parts are fetched in one request, up to this many bytes.
REQUEST_BYTES = 8 << 20
_RANGE = struct.Struct("<QQ")

Run = tuple[int, int]  # parts first .. last-1
Get = Callable[[int, int], "bytes | memoryview"]  # bytes start .. end-1 of the object, exactly


class Entry:
    """An object that this process has pinned. Any number of threads may read and fetch at once."""

    def __init__(self, path: Path, data: Held, have: Held, size: int, part_bytes: int) -> None:
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
    def sealed(self) -> bool:
        return len(self._marks) > self.parts and self._marks[self.parts] == 1

    @property
    def present(self) -> int:
        """Number of bytes that are there."""
        there = self._marks[: self.parts]
        short = self.parts * self.part_bytes - self.size if there[self.parts - 1 :] == b"\1" else 0
        return there.count(1) * self.part_bytes - short

    def look(self) -> None:
        """Read the marks again. While the object is pinned, parts are added and never removed."""
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
            Whether others were fetching some of them, so that this waited for them.
        """
        parts = list(range(*run))
        with _again(self.data) as lock:  # its own open file description, so that threads exclude each other
            busy = self._sweep(lock, parts, get, wait=False)
            self._sweep(lock, busy, get, wait=True)
        return bool(busy)

    def sealing(self) -> Callable[[], None]:
        """Return a function that syncs the object to disk and then marks it. After a crash only the mark is trusted.

        The function may be called any time, also after ``close``: it has its own descriptors, and no pin.
        """
        data = _again(self.data)
        have = _again(self._have)
        parts = self.parts

        def seal() -> None:
            with data, have:
                if os.fstat(data.fd).st_nlink and data.lock(SEAL, wait=False):
                    os.fdatasync(data.fd)
                    os.pwrite(have.fd, b"\1", parts)
                    os.fdatasync(have.fd)

        return seal

    def is_checked(self, start: int, end: int) -> bool:
        """Whether exactly this range was checked since it was fetched, by any process."""
        if (start, end) not in self._checked:
            size = os.fstat(self._have.fd).st_size
            new = os.pread(self._have.fd, max(0, size - self._checked_up_to), self._checked_up_to)
            whole = len(new) // _RANGE.size * _RANGE.size
            self._checked.update(_RANGE.iter_unpack(new[:whole]))
            self._checked_up_to += whole
        return (start, end) in self._checked

    def note_checked(self, start: int, end: int) -> None:
        """Remember that these bytes are right, for as long as they are in the cache."""
        beyond_marks = os.fstat(self._have.fd).st_size - (self.parts + 1)
        if beyond_marks < 0 or beyond_marks % _RANGE.size:  # or a note that a full disk cut
            os.ftruncate(self._have.fd, self.parts + 1 + max(0, beyond_marks // _RANGE.size * _RANGE.size))
        with Held(f"/proc/self/fd/{self._have.fd}", os.O_WRONLY | os.O_APPEND) as log:
            os.write(log.fd, _RANGE.pack(start, end))
        self._checked.add((start, end))

    def repair(self, start: int, right: bytes | memoryview) -> None:
        """Replace wrong bytes and sync them: the mark that the object is synced may be set already."""
        os.pwrite(self.data.fd, right, start)
        os.fdatasync(self.data.fd)

    def touch(self, now_ns: int) -> None:
        """Record the time of use, for LRU eviction."""
        os.utime(self.data.fd, ns=(now_ns, now_ns))

    def close(self) -> None:
        self._have.close()
        self.data.close()

    def _known(self, first: int, last: int) -> bytes:
        return self._marks[first : min(last, self.parts)].ljust(last - first, b"\0")

    def _gaps(self, first: int, last: int) -> Iterator[Run]:
        """Runs of missing parts, cut at multiples of one request's parts, so that all processes cut alike."""
        stride = max(1, REQUEST_BYTES // self.part_bytes)
        known = self._known(first, last)
        begin = None
        for part in range(first, last + 1):
            gap = part < last and known[part - first] == 0
            if begin is not None and (not gap or part % stride == 0):
                yield begin, part
                begin = None
            if gap and begin is None:
                begin = part

    def _sweep(self, lock: Held, parts: Sequence[int], get: Get, wait: bool) -> list[int]:
        """Fetch the parts that can be locked, adjacent ones together.

        Returns:
            The parts that others are fetching; none if ``wait``.
        """
        busy = []
        at = 0
        while at < len(parts):
            first = parts[at]
            last = first
            while at < len(parts) and parts[at] == last:
                last += 1
                at += 1
            if not lock.lock(first, last - first, wait=False):  # some are locked by others: try one by one
                at -= last - first - 1
                last = first + 1
                if not lock.lock(first, wait=wait):
                    busy.append(first)
                    continue
            try:
                self.look()  # again, now that no other process can fetch them
                for gap in list(self._gaps(first, last)):
                    self._download(lock.fd, gap, get)
            finally:
                lock.unlock(first, last - first)
        return busy

    def _download(self, fd: int, run: Run, get: Get) -> None:
        start = run[0] * self.part_bytes
        end = min(run[1] * self.part_bytes, self.size)
        left = memoryview(get(start, end)).cast("B")
        with speaking_of(self.path.parent):
            while left:
                count = os.pwrite(fd, left, start)
                left = left[count:]
                start += count
            os.pwrite(self._have.fd, b"\1" * (run[1] - run[0]), run[0])  # after the data: marked parts are present
        self.look()


def _again(held: Held) -> Held:
    """Another open file description of the same inode. By descriptor, as the name may be unlinked."""
    return Held(f"/proc/self/fd/{held.fd}", os.O_RDWR)


def pin(path: Path, size: int, part_bytes: int) -> Entry | None:
    """Pin an object if it is in the cache, so that it is not evicted until the entry is closed.

    Returns:
        None if the object is not in the cache, or has another size.
    """
    while True:
        try:
            data = Held(path, os.O_RDWR)
        except FileNotFoundError:
            return None
        data.lock(PIN, shared=True)
        # It may have been evicted between the open and the lock, or truncated from outside.
        if os.fstat(data.fd).st_nlink and os.fstat(data.fd).st_size == size:
            have = Held(have_path(str(path)), os.O_RDWR | os.O_CREAT)
            return Entry(path, data, have, size, part_bytes)
        gone = os.fstat(data.fd).st_nlink == 0
        data.close()
        if not gone:
            return None


def evict(path: str) -> bool:
    """Remove an object unless it is pinned. The marks go first, so that they never outlive the data.

    Returns:
        Whether it was removed.
    """
    with Held(path, os.O_RDWR) as data:
        if not data.lock(PIN, wait=False):
            return False
        for name in (have_path(path), path):
            try:
                os.unlink(name)
            except FileNotFoundError:
                pass
        return True
