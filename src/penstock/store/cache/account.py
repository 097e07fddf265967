"""How many bytes a node cache holds at most, known without looking at its files. Knows one number.

The number is raised before an object is created and made exact whenever all files were looked at, so a process that is
killed between two lines leaves it too high, never too low. It lies in the file that is locked to change it.
"""

import contextlib
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from penstock.store.cache.locks import LockedFile
from penstock.store.cache.lockwait import LOG_AFTER_SECONDS, log_holders

CONTROL = ".penstock"  # no object's path starts with it: those start with a URL scheme
_RECORD = struct.Struct("<8sQ")
_MAGIC = b"account1"
_PAUSE_SECONDS = 0.001


class Account:
    """The number, for as long as the node-wide lock is held."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def most(self) -> int | None:
        """Return how many bytes the cache holds at most; None if the files must be looked at."""
        record = os.pread(self._fd, _RECORD.size, 0)
        if len(record) < _RECORD.size or not record.startswith(_MAGIC):
            return None
        return int(_RECORD.unpack(record)[1])

    def note(self, nbytes: int) -> None:
        """Set the number."""
        os.pwrite(self._fd, _RECORD.pack(_MAGIC, nbytes), 0)

    def forget(self) -> None:
        """Have the files looked at by the next who needs the number, as after a reboot."""
        os.ftruncate(self._fd, 0)


@contextlib.contextmanager
def admission_lock(root: Path) -> Iterator[Account]:
    """Hold the node-wide lock: no other process admits or evicts objects meanwhile."""
    with LockedFile(root / CONTROL / "admission", os.O_RDWR | os.O_CREAT) as door:
        _lock(door, root)
        try:
            yield Account(door.fd)
        finally:
            fcntl.flock(door.fd, fcntl.LOCK_UN)


def _lock(door: LockedFile, root: Path) -> None:
    begin = time.monotonic()
    say_at = begin + LOG_AFTER_SECONDS
    while True:
        try:
            return fcntl.flock(door.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_SECONDS)
        if (now := time.monotonic()) >= say_at:
            say_at = now + 6 * LOG_AFTER_SECONDS
            log_holders(door, 0, f"cache {root}", now - begin)
