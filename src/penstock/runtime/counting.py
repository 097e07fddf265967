"""Counters shared by all threads and worker processes. Each process has its own row in a shared file."""

import fcntl
import mmap
import os
import threading

import numpy as np

from penstock.runtime.forking import reset_in_children
from penstock.runtime.shared import SharedFile


class SharedCounters:
    """Counters that only grow, summed over processes.

    Args:
        names: Names of the counters.
    """

    def __init__(self, *names: str) -> None:
        self._names = names
        self._file = SharedFile(b"")
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Take a new row in a forked child."""
        self._lock = threading.Lock()
        self._row: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"_names": self._names, "_file": self._file}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.reset_after_fork()
        reset_in_children(self)

    def add(self, name: str, by: int = 1) -> None:
        """Increase a counter."""
        with self._lock:
            if self._row is None:
                self._row = self._new_row()
            self._row[self._names.index(name)] += by

    def totals(self) -> dict[str, int]:
        """Return the sum of each counter over all processes."""
        with open(self._file.path, "rb") as file:
            rows = np.frombuffer(file.read(), np.int64).reshape(-1, len(self._names))
        return dict(zip(self._names, rows.sum(axis=0).tolist(), strict=True))

    def _new_row(self) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        with open(self._file.path, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            start = os.fstat(file.fileno()).st_size
            os.ftruncate(file.fileno(), start + 8 * len(self._names))
            memory = mmap.mmap(file.fileno(), 0)
            fcntl.flock(file, fcntl.LOCK_UN)  # closing is not enough: a map keeps the file open
        return np.frombuffer(memory, np.int64, len(self._names), start)
