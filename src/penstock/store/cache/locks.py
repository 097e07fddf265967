"""Locks that die with their process, on descriptors that do not outlive a fork. Knows nothing of what they guard.

Open-file-description (OFD) locks belong to the open file, not to the process: two threads with a descriptor each
exclude one another as two processes do, and the kernel frees the lock when the last descriptor goes, also by
``kill -9``. A forked child would keep its parent's locks alive, so it closes what it inherits before it runs.
"""

import errno
import fcntl
import os
import resource
import struct
import threading
import weakref
from pathlib import Path

_FLOCK = "hhqqi0q"  # struct flock: type, whence, start, length, pid (0 for OFD locks), padded to its alignment
_guard = threading.RLock()  # reentrant: a finalizer may close a descriptor while this thread opens one
_open: "weakref.WeakSet[Held]" = weakref.WeakSet()


class Held:
    """A descriptor with the locks on it. ``fd`` is -1 once closed, and in a child that was forked with it."""

    def __init__(self, path: Path | str, flags: int) -> None:
        self.fd = -1
        # Under the guard, so that no fork falls between the open and the note of it.
        with _guard:
            self.fd = _open_fd(path, flags | os.O_CLOEXEC)
            _open.add(self)

    def lock(self, start: int, length: int = 1, *, shared: bool = False, wait: bool = True) -> bool:
        """Lock bytes that need not exist. Without ``wait``, False when someone else is in the way."""
        kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
        command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
        try:
            fcntl.fcntl(self.fd, command, struct.pack(_FLOCK, kind, os.SEEK_SET, start, length, 0))
        except (BlockingIOError, PermissionError):  # EAGAIN or EACCES: POSIX allows both
            return False
        return True

    def unlock(self, start: int, length: int = 1) -> None:
        fcntl.fcntl(self.fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_UNLCK, os.SEEK_SET, start, length, 0))

    def close(self) -> None:
        """Free the locks by name first: closing alone would not, if a child still has a copy."""
        with _guard:
            fd, self.fd = self.fd, -1
            if fd < 0:
                return
            _open.discard(self)
            try:
                fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))
            finally:
                os.close(fd)

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self.fd >= 0:
            self.close()


def _open_fd(path: Path | str, flags: int) -> int:
    """Open; a pool of many groups needs more descriptors than the usual soft limit of 1,024, so lift it on demand."""
    try:
        return os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return os.open(path, flags, 0o666)


def _close_inherited() -> None:
    for held in list(_open):
        os.close(held.fd)  # close only: to unlock here would unlock the parent
        held.fd = -1
    _open.clear()
    _guard.release()


os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_close_inherited)
