"""Memory that pieces of mapped files are copied into. Knows nothing of what they are."""

import os
from collections.abc import Sequence
from mmap import mmap

_AT_ONCE = 1_024  # pieces that the kernel takes in one call


class Tray:
    """``memory`` of so many bytes, which the kernel fills: all pieces in one call outside of the interpreter's lock.

    And where a mapped file was cut, the kernel stops, when to touch its bytes would end the process.
    """

    def __init__(self, size: int) -> None:
        self._fd = os.memfd_create("penstock")
        os.ftruncate(self._fd, max(1, size))
        self.memory = memoryview(mmap(self._fd, 0))[:size]

    def put(self, pieces: Sequence[memoryview | bytes]) -> None:
        """Copy the pieces one behind the other, from the beginning. What can't be read, and all behind it, is zeros."""
        end, done = sum(map(len, pieces)), 0
        for first in range(0, len(pieces), _AT_ONCE):
            some = pieces[first : first + _AT_ONCE]
            try:
                copied = os.pwritev(self._fd, some, done)
            except OSError:  # not a single byte
                copied = 0
            done += copied
            if copied < sum(map(len, some)):
                self.memory[done:end] = bytes(end - done)
                return

    def __del__(self) -> None:
        if os is not None and getattr(self, "_fd", -1) >= 0:  # at the interpreter's end modules are gone
            os.close(self._fd)
