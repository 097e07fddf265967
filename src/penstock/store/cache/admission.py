"""Which objects enter the node cache, and which are evicted. Knows sizes and times of use; not what the bytes are.

One flock guards admission and eviction. The sum of the file sizes is the only account, so it cannot drift: a process
that is killed at any line here leaves, at worst, a cache that holds less than it could.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from penstock.store.cache.disk import speaking_of
from penstock.store.cache.locks import Held
from penstock.store.cache.parts import PIN, Entry, evict, pin
from penstock.store.cache.paths import SCHEMES, have_path, is_data

CONTROL = ".penstock"  # no object's path starts with it: those start with a URL scheme
_LOOK_AGAIN_SECONDS = 0.05


class CacheTooSmall(RuntimeError):
    """The bound is smaller than what is needed at once; ``enough`` is a bound in bytes that would do."""

    def __init__(self, message: str, enough: int) -> None:
        super().__init__(message, enough)
        self.enough = enough

    def __str__(self) -> str:
        return str(self.args[0])


class CacheInUse(CacheTooSmall):
    """The object does not fit beside what is pinned now."""


class Resident(NamedTuple):
    """One object on disk. Sorts by last use. A tuple, because thousands are sorted at each admission."""

    used_ns: int
    path: str
    size: int


@contextlib.contextmanager
def alone(root: Path) -> Iterator[None]:
    """Hold the node-wide lock: no other process admits or evicts objects meanwhile."""
    with Held(root / CONTROL / "admission", os.O_RDWR | os.O_CREAT) as door:
        fcntl.flock(door.fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(door.fd, fcntl.LOCK_UN)


class Admission:
    """Admits objects to one cache folder within a bound in bytes.

    Args:
        evicted: called with the size of each evicted object.
    """

    def __init__(self, root: Path, max_bytes: int, part_bytes: int, evicted: Callable[[int], None]) -> None:
        self._root = root
        self._max_bytes = max_bytes
        self._part_bytes = part_bytes
        self._evicted = evicted

    def enter(self, path: Path, size: int, patience: float) -> Entry:
        """Pin an object and reserve its whole size.

        Args:
            patience: seconds to wait while everything that could be evicted is pinned.

        Raises:
            CacheTooSmall: the object is larger than the bound.
            CacheInUse: too much is pinned for the object to fit.
        """
        self.require(size, path.name.rpartition("~")[0])
        until = time.monotonic() + patience
        while True:
            with speaking_of(self._root), alone(self._root):
                if entry := pin(path, size, self._part_bytes):
                    return entry
                if (pinned := self._make_room(size)) is None:
                    return self._create(path, size)
            if time.monotonic() >= until:
                what = f"{path.name.rpartition('~')[0]} with the {pinned:,} bytes in use beside it"
                raise CacheInUse(self._complaint(pinned + size, what), enough=pinned + size)
            time.sleep(_LOOK_AGAIN_SECONDS)

    def require(self, size: int, what: str) -> None:
        """Raise CacheTooSmall if ``size`` bytes exceed the bound. ``what`` is for the message."""
        if size > self._max_bytes:
            raise CacheTooSmall(self._complaint(size, what), enough=size)

    def trim(self) -> None:
        """Evict down to the bound, which may be smaller than that of the last run."""
        with alone(self._root):
            self._make_room(0)

    def remove(self, resident: Resident) -> bool:
        """Evict an object unless it is pinned, and remove folders that are then empty. Only call it when ``alone``."""
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

    def _complaint(self, size: int, what: str) -> str:
        return (
            f"cache {self._root} may hold {self._max_bytes:,} bytes, but {what} needs {size:,}: "
            f"set its size to at least {size:,}"
        )

    def _make_room(self, size: int) -> int | None:
        """Evict the least recently used objects until ``size`` more bytes fit.

        Returns:
            None if they fit, else the number of pinned bytes.
        """
        residents = self.residents()
        total = sum(r.size for r in residents)
        pinned = 0
        for resident in residents:
            if total + size <= self._max_bytes:
                break
            if self.remove(resident):
                total -= resident.size
                self._evicted(resident.size)
            else:
                pinned += resident.size
        return None if total + size <= self._max_bytes else pinned

    def _create(self, path: Path, size: int) -> Entry:
        """Create an entry under one fixed name, then rename it: it appears in full size; a crash leaves one file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = self._root / CONTROL / "entering"
        data = Held(aside, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.ftruncate(data.fd, size)
        data.lock(PIN, shared=True)
        have = have_path(str(path))
        with contextlib.suppress(FileNotFoundError):  # marks of a data file that was removed by hand
            os.unlink(have)
        os.rename(aside, path)
        return Entry(path, data, Held(have, os.O_RDWR | os.O_CREAT), size, self._part_bytes)


def is_pinned(path: str) -> bool:
    """Whether any process has the object pinned."""
    with Held(path, os.O_RDWR) as data:
        return not data.lock(PIN, wait=False)


def _walk(folder: str) -> Iterator[Resident]:
    with os.scandir(folder) as found:
        for each in found:
            if is_data(each.name) and each.is_file(follow_symlinks=False):
                stat = each.stat(follow_symlinks=False)
                yield Resident(stat.st_mtime_ns, each.path, stat.st_size)
            elif each.is_dir(follow_symlinks=False):
                yield from _walk(each.path)
