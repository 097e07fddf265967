"""Who may enter the node cache, and who must leave for it. Knows sizes and times of use; not what the bytes are.

One flock guards all entering and leaving. The sum of the files' sizes is the only account there is, so nothing can
drift or leak: a process that dies between any two lines here leaves a cache that is smaller than it might be, no more.
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

CONTROL = ".penstock"  # a folder that no object's path starts with: those start with a URL's scheme
_LOOK_AGAIN_SECONDS = 0.05


class CacheTooSmall(RuntimeError):
    """The bound does not hold what must be held at once; ``enough`` bytes would."""

    def __init__(self, message: str, enough: int) -> None:
        super().__init__(message, enough)
        self.enough = enough

    def __str__(self) -> str:
        return str(self.args[0])


class CacheInUse(CacheTooSmall):
    """It would fit, were it not for what is pinned now."""


class Resident(NamedTuple):
    """One object on the disk. Sorts by its last use; a tuple, as a full cache of thousands is sorted at each entry."""

    used_ns: int
    path: str
    size: int


@contextlib.contextmanager
def alone(root: Path) -> Iterator[None]:
    """Nobody else enters or leaves the cache meanwhile, on the whole node."""
    with Held(root / CONTROL / "admission", os.O_RDWR | os.O_CREAT) as door:
        fcntl.flock(door.fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(door.fd, fcntl.LOCK_UN)


class Admission:
    """The door of one cache folder, for a bound in bytes."""

    def __init__(self, root: Path, max_bytes: int, part_bytes: int, evicted: Callable[[int], None]) -> None:
        self._root = root
        self._max_bytes = max_bytes
        self._part_bytes = part_bytes
        self._evicted = evicted

    def enter(self, path: Path, size: int, patience: float) -> Entry:
        """The object pinned, its whole size reserved. ``patience``: seconds to wait while all in the way is pinned."""
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
        """Refuse now what could never fit."""
        if size > self._max_bytes:
            raise CacheTooSmall(self._complaint(size, what), enough=size)

    def trim(self) -> None:
        """Come down to a bound that is smaller than that of the last run."""
        with alone(self._root):
            self._make_room(0)

    def remove(self, resident: Resident) -> bool:
        """Evict, and the folders that are empty then. Only when ``alone``."""
        if not evict(resident.path):
            return False
        folder = os.path.dirname(resident.path)
        with contextlib.suppress(OSError):  # not empty
            while folder != str(self._root):
                os.rmdir(folder)
                folder = os.path.dirname(folder)
        return True

    def residents(self) -> list[Resident]:
        """All objects on the disk, least recently used first."""
        folders = [folder for scheme in SCHEMES if os.path.isdir(folder := f"{self._root}/{scheme}")]
        return sorted(found for folder in folders for found in _walk(folder))

    def _complaint(self, size: int, what: str) -> str:
        return (
            f"cache {self._root} may hold {self._max_bytes:,} bytes, but {what} needs {size:,}: "
            f"give it a size of at least {size:,}"
        )

    def _make_room(self, size: int) -> int | None:
        """Evict the least recently used until ``size`` more fits: None. If it cannot: the bytes that are pinned."""
        residents = self.residents()
        total, pinned = sum(r.size for r in residents), 0
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
        """Made aside under one fixed name, so that it appears in full size at once and a death leaves nothing new."""
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = self._root / CONTROL / "entering"
        data = Held(aside, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.ftruncate(data.fd, size)
        data.lock(PIN, shared=True)
        have = have_path(str(path))
        with contextlib.suppress(FileNotFoundError):  # marks of a data file that someone removed by hand
            os.unlink(have)
        os.rename(aside, path)
        return Entry(path, data, Held(have, os.O_RDWR | os.O_CREAT), size, self._part_bytes)


def is_pinned(path: str) -> bool:
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
