"""Memory into which pieces of mapped files are copied. Knows nothing of what they are."""

import os
from collections.abc import Sequence
from mmap import mmap

_PIECES_PER_CALL = 1_024  # IOV_MAX on Linux


class Tray:
    """``memory`` of ``size`` bytes that the kernel fills, many pieces per call and without the GIL.

    Where a mapped file was truncated the kernel copies no further; reading its bytes here would raise SIGBUS.
    """

    def __init__(self, size: int) -> None:
        self._fd = os.memfd_create("penstock")
        os.ftruncate(self._fd, max(1, size))
        self.memory = memoryview(mmap(self._fd, 0))[:size]

    def put(self, pieces: Sequence[memoryview | bytes]) -> None:
        """Copy the pieces one after the other, from the beginning. From the first unreadable byte on, all are zeros."""
        end = sum(map(len, pieces))
        done = 0
        for first in range(0, len(pieces), _PIECES_PER_CALL):
            some = pieces[first : first + _PIECES_PER_CALL]
            try:
                copied = os.pwritev(self._fd, some, done)
            except OSError:  # the first byte is unreadable
                copied = 0
            done += copied
            if copied < sum(map(len, some)):
                self.memory[done:end] = bytes(end - done)
                return

    def __del__(self) -> None:
        if os is not None and getattr(self, "_fd", -1) >= 0:  # modules are None at interpreter shutdown
            os.close(self._fd)
