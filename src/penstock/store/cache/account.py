"""An upper bound of the bytes in a node cache, kept without counting its files. Knows one number.

The number is raised before an object is created and made exact whenever all files are counted, so a process that is
killed between two lines leaves it too high, never too low. It is stored in the file that is locked to change it.
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
_POLL_SECONDS = 0.001


class Account:
    """The number. Valid while the node-wide lock is held."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def upper_bound(self) -> int | None:
        """Return an upper bound of the bytes in the cache; None if the files have to be counted."""
        record = os.pread(self._fd, _RECORD.size, 0)
        if len(record) < _RECORD.size or not record.startswith(_MAGIC):
            return None
        return int(_RECORD.unpack(record)[1])

    def set(self, nbytes: int) -> None:
        """Set the upper bound."""
        os.pwrite(self._fd, _RECORD.pack(_MAGIC, nbytes), 0)

    def invalidate(self) -> None:
        """Have the files counted when the number is next needed, as after a reboot."""
        os.ftruncate(self._fd, 0)


def upper_bound(root: Path) -> int | None:
    """Return an upper bound of the bytes in a cache without its lock, for statistics; None if it is not known."""
    try:
        fd = os.open(root / CONTROL / "admission", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return Account(fd).upper_bound()
    finally:
        os.close(fd)


@contextlib.contextmanager
def admission_lock(root: Path) -> Iterator[Account]:
    """Hold the node-wide lock of admission and eviction."""
    with LockedFile(root / CONTROL / "admission", os.O_RDWR | os.O_CREAT) as file:
        _lock(file, root)
        try:
            yield Account(file.fd)
        finally:
            fcntl.flock(file.fd, fcntl.LOCK_UN)


def _lock(file: LockedFile, root: Path) -> None:
    begin = time.monotonic()
    say_at = begin + LOG_AFTER_SECONDS
    while True:
        try:
            return fcntl.flock(file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_POLL_SECONDS)
        if (now := time.monotonic()) >= say_at:
            say_at = now + 6 * LOG_AFTER_SECONDS
            log_holders(file, 0, f"cache {root}", now - begin)
