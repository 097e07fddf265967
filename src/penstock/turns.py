"""Threads that take turns at work that is mostly Python.

Such work is many short calls, and at each of them the interpreter's lock may change hands: two threads at it at once
are slower than one. In turns, one is at it while the others are in long calls outside of the lock. Work that takes
longer is waiting or decoding, which is better done side by side.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.forking import reset_in_children

_QUICK = 0.5e-3  # seconds a row, in a turn of its own
_PAUSE = 64  # pieces of work done side by side before a turn is tried again


class Turns:
    """A feed's. A turn that takes long holds nobody up for more than it should have taken itself."""

    def __init__(self) -> None:
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self.lock = threading.Lock()  # for work that is nothing but Python, and soon done
        self._pause = 0

    @contextmanager
    def taken(self, rows: int) -> Iterator[None]:
        """For work on so many rows: alone, or side by side if such work proved to take long."""
        if self._pause:
            self._pause = max(0, self._pause - 1)
            yield
        elif self.lock.acquire(timeout=rows * _QUICK):
            began = time.perf_counter()
            try:
                yield
            finally:
                self.lock.release()
                if time.perf_counter() - began > rows * _QUICK:
                    self._pause = _PAUSE
        else:
            yield
