"""One object in the node cache, arriving part by part. Knows files and locks; not keys, stores or bounds.

    shard.tar~9f8e.data   the object, sparse, of full size from the start: its size is its reservation
    shard.tar~9f8e.have   one byte a part: 1 when the part is there; one byte more: 1 when all of it is on the disk;
                          then one byte a note, of whoever knows what the bytes mean: 1 when some of them were checked

    bytes locked in .data:   i       part i is being fetched (write lock)
                             PIN     the object is in use (read lock); being evicted (write lock)
                             SEAL    someone is writing it out to the disk

Who fetches never waits for a lock while holding one, so there is no deadlock; who waits for a part takes over when the
fetcher dies, because the kernel frees the lock.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from penstock.store.cache.disk import speaking_of
from penstock.store.cache.locks import Held
from penstock.store.cache.paths import have_path

PIN, SEAL = 1 << 62, (1 << 62) + 1
# Neighbouring parts come in one request, up to this many bytes.
REQUEST_BYTES = 8 << 20

Run = tuple[int, int]  # parts first .. last-1
Get = Callable[[int, int], "bytes | memoryview"]  # bytes start .. end-1 of the object, exactly


class Entry:
    """An object that is pinned by this process. Any number of threads may read and fetch at once."""

    def __init__(self, path: Path, data: Held, have: Held, size: int, part_bytes: int) -> None:
        self.path = path
        self.data = data  # for reading; its descriptor is -1 in a child that was forked with it
        self.size = size
        self.part_bytes = part_bytes
        self.parts = -(-size // part_bytes)
        self.users = 1
        self._have = have
        self._marks = b""
        self.complete = False
        self.look()

    @property
    def sealed(self) -> bool:
        return len(self._marks) > self.parts and self._marks[self.parts] == 1

    @property
    def present(self) -> int:
        """Bytes that are there."""
        there = self._marks[: self.parts]
        short = self.parts * self.part_bytes - self.size if there[self.parts - 1 :] == b"\1" else 0
        return there.count(1) * self.part_bytes - short

    def look(self) -> None:
        """See what is there now. While this pin holds, parts come and never go."""
        marks = self._marks = os.pread(self._have.fd, self.parts + 1, 0)
        if marks.count(1, 0, self.parts) == self.parts:
            self.complete = True  # never unset: another thread's look may be older

    def missing(self, start: int, end: int) -> list[Run]:
        """The runs of parts to fetch for bytes start .. end-1, none longer than one request may be."""
        if self.complete or start >= end:
            return []
        first, last = start // self.part_bytes, -(-end // self.part_bytes)
        if 0 not in self._known(first, last):
            return []
        self.look()
        return list(self._gaps(first, last))

    def fetch(self, run: Run, get: Get) -> bool:
        """Make the run be here. True if that took waiting for parts that someone else was fetching."""
        parts = list(range(*run))
        with _again(self.data) as lock:  # an open file of its own, so that threads exclude each other
            busy = self._sweep(lock, parts, get, wait=False)
            self._sweep(lock, busy, get, wait=True)
        return bool(busy)

    def sealing(self) -> Callable[[], None]:
        """What writes the object out and then notes it: only what is noted may be trusted when the machine crashed.

        To be called at leisure, also after ``close``: it has descriptors of its own, and no pin.
        """
        data, have, parts = _again(self.data), _again(self._have), self.parts

        def seal() -> None:
            with data, have:
                if os.fstat(data.fd).st_nlink and data.lock(SEAL, wait=False):
                    os.fdatasync(data.fd)
                    os.pwrite(have.fd, b"\1", parts)
                    os.fdatasync(have.fd)

        return seal

    def noted(self, note: int) -> bool:
        return os.pread(self._have.fd, 1, self.parts + 1 + note) == b"\1"

    def take_note(self, note: int) -> None:
        """Remember something about these bytes for as long as they are here."""
        os.pwrite(self._have.fd, b"\1", self.parts + 1 + note)

    def repair(self, start: int, right: bytes | memoryview) -> None:
        """Put right bytes in the place of wrong ones, and on the disk: a note of them may be there first."""
        os.pwrite(self.data.fd, right, start)
        os.fdatasync(self.data.fd)

    def touch(self, now_ns: int) -> None:
        """Note the use: the least recently used go first."""
        os.utime(self.data.fd, ns=(now_ns, now_ns))

    def close(self) -> None:
        self._have.close()
        self.data.close()

    def _known(self, first: int, last: int) -> bytes:
        return self._marks[first : min(last, self.parts)].ljust(last - first, b"\0")

    def _gaps(self, first: int, last: int) -> Iterator[Run]:
        """Runs of missing parts, cut where a whole download would cut them, so that all cut alike."""
        stride = max(1, REQUEST_BYTES // self.part_bytes)
        known, begin = self._known(first, last), None
        for part in range(first, last + 1):
            gap = part < last and known[part - first] == 0
            if begin is not None and (not gap or part % stride == 0):
                yield begin, part
                begin = None
            if gap and begin is None:
                begin = part

    def _sweep(self, lock: Held, parts: Sequence[int], get: Get, wait: bool) -> list[int]:
        """Fetch what can be locked, neighbours together; returns the parts that others are at (none if ``wait``)."""
        busy, at = [], 0
        while at < len(parts):
            first = last = parts[at]
            while at < len(parts) and parts[at] == last:
                last, at = last + 1, at + 1
            if not lock.lock(first, last - first, wait=False):  # not all of them: then one after the other
                last, at = first + 1, at - (last - first) + 1
                if not lock.lock(first, wait=wait):
                    busy.append(first)
                    continue
            try:
                self.look()  # again, now that nobody else can be at it
                for gap in list(self._gaps(first, last)):
                    self._download(lock.fd, gap, get)
            finally:
                lock.unlock(first, last - first)
        return busy

    def _download(self, fd: int, run: Run, get: Get) -> None:
        start, end = run[0] * self.part_bytes, min(run[1] * self.part_bytes, self.size)
        left = memoryview(get(start, end)).cast("B")
        with speaking_of(self.path.parent):
            while left:
                count = os.pwrite(fd, left, start)
                left, start = left[count:], start + count
            os.pwrite(self._have.fd, b"\1" * (run[1] - run[0]), run[0])  # only now: what is marked is there
        self.look()


def _again(held: Held) -> Held:
    """Another open file of the same inode, by number, as the name may be gone."""
    return Held(f"/proc/self/fd/{held.fd}", os.O_RDWR)


def pin(path: Path, size: int, part_bytes: int) -> Entry | None:
    """The object if it is in the cache, so that nobody evicts it until it is closed."""
    while True:
        try:
            data = Held(path, os.O_RDWR)
        except FileNotFoundError:
            return None
        data.lock(PIN, shared=True)
        # It may have been evicted between the two lines above, or be of another length through a hand from outside.
        if os.fstat(data.fd).st_nlink and os.fstat(data.fd).st_size == size:
            have = Held(have_path(str(path)), os.O_RDWR | os.O_CREAT)
            return Entry(path, data, have, size, part_bytes)
        gone = os.fstat(data.fd).st_nlink == 0
        data.close()
        if not gone:
            return None


def evict(path: str) -> bool:
    """Remove an object unless it is pinned. The marks go first, so that marks never outlive what they speak of."""
    with Held(path, os.O_RDWR) as data:
        if not data.lock(PIN, wait=False):
            return False
        for name in (have_path(path), path):
            try:
                os.unlink(name)
            except FileNotFoundError:
                pass
        return True
