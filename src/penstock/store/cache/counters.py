"""Counters of the node cache, per process and summed over the node. Knows only how to add.

Each process writes its own small file and holds a lock on it. The next process folds the files of dead processes into
one total, so that the folder does not grow and ``kill -9`` loses nothing but the last few hits.
"""

import contextlib
import json
import os
import struct
import threading
import time
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from penstock.runtime.atomicwrite import write_atomically
from penstock.store.cache.locks import LockedFile, is_free

MANY_HITS = 1_024
_FOLD_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Counts:
    """A read is a hit if all its bytes were cached, else a miss; also a wait if others were fetching some of them."""

    hits: int = 0
    misses: int = 0
    waits: int = 0
    bytes_read: int = 0
    bytes_fetched: int = 0
    requests: int = 0
    retries: int = 0
    evictions: int = 0
    bytes_evicted: int = 0
    waited_ns: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def seconds_waited(self) -> float:
        """Time that reads waited for data, summed over all threads."""
        return self.waited_ns / 1e9


_NAMES = tuple(field.name for field in fields(Counts))
_RECORD = struct.Struct(f"{len(_NAMES)}q")


class Counters:
    """The counts of this process, kept on disk. Thread-safe; a forked child starts at zero.

    The folder is not created here: creating it again after its disk was unmounted would hide that.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Bytes of each hit that is not counted yet. On the path of every read: appending takes no lock and calls
        # nothing; a reader that sees ``MANY_HITS`` of them calls ``flush``.
        self.hits: list[int] = []
        self.reset()

    def reset(self) -> None:
        """Start at zero, also in a forked child."""
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(_NAMES, 0)
        self._file: LockedFile | None = None
        self.hits.clear()

    def flush(self) -> None:
        with self._lock:
            self._flush()

    def add(self, **deltas: int) -> None:
        with self._lock:
            for name, delta in deltas.items():
                self._counts[name] += delta
            self._flush()

    def mine(self) -> Counts:
        with self._lock:
            self._flush()
            return Counts(**self._counts)

    def node(self) -> Counts:
        """Return the sum over all processes that ever used this cache. The counts of this one are exact."""
        self.flush()
        return fold_dead_processes(self._folder)

    def close(self) -> None:
        """Leave the file to be folded into the total. Later counts go to a new file."""
        with self._lock:
            self._flush()
            file = self._file
            self._file = None
            self._counts = dict.fromkeys(_NAMES, 0)
        if file:
            file.close()

    def _flush(self) -> None:
        """Write the counts. Disk errors are ignored: statistics must not stop a run."""
        count = len(self.hits)
        self._counts["hits"] += count
        self._counts["bytes_read"] += sum(self.hits[:count])
        del self.hits[:count]  # keeps what other threads appended meanwhile
        with contextlib.suppress(OSError):
            if self._file is None:
                self._file = self._begin()
            os.pwrite(self._file.fd, _RECORD.pack(*self._counts.values()), 0)

    def _begin(self) -> LockedFile:
        """Create a file that is locked before it gets its name, so that no process takes it for a dead one's."""
        making = self._folder / f"{os.getpid()}-{time.time_ns()}.making"
        file = LockedFile(making, os.O_RDWR | os.O_CREAT)
        file.lock(0)
        making.rename(making.with_suffix(".live"))
        return file


def fold_dead_processes(folder: Path) -> Counts:
    """Add the counts of dead processes to the total on disk. Returns the total, including live processes."""
    with LockedFile(folder / "folding", os.O_RDWR | os.O_CREAT) as lock:
        total = _fold_gone(folder) if _locked_soon(lock) else _total(folder)[0]
        for path in folder.glob("*.live"):
            total += _read(path)
    return total


def _locked_soon(lock: LockedFile) -> bool:
    """Try to lock the folder for some seconds: a stopped process may hold the lock, and counts are not worth a wait."""
    until = time.monotonic() + _FOLD_SECONDS
    while not lock.lock(0, wait=False):
        if time.monotonic() > until:
            return False
        time.sleep(0.002)
    return True


def _fold_gone(folder: Path) -> Counts:
    total_path = folder / "total.json"
    total, done = _total(folder)
    gone = [path for path in folder.glob("*.live") if is_free(path)]
    fresh = [path for path in gone if path.name not in done]
    if fresh:
        new = sum((_read(path) for path in fresh), total)
        # The names are kept with the sum: a crash before the files are removed does not count them twice.
        text = json.dumps({"counts": dict(zip(_NAMES, astuple(new), strict=True)), "folded": [p.name for p in gone]})
        try:
            write_atomically(total_path, [text.encode()])
            total = new
        except OSError:  # a full disk: the next process folds them
            gone = [path for path in gone if path not in fresh]
    for path in [*gone, *(path for path in folder.glob("*.making") if is_free(path))]:
        path.unlink(missing_ok=True)
    return total


def _total(folder: Path) -> tuple[Counts, list[str]]:
    """Return the folded counts of dead processes, and the names of their files, which may still exist."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        state = json.loads((folder / "total.json").read_text())
        return Counts(**state["counts"]), state["folded"]
    return Counts(), []


def _read(path: Path) -> Counts:
    record = path.read_bytes()
    return Counts(*_RECORD.unpack(record)) if len(record) == _RECORD.size else Counts()
