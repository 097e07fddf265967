"""Locks that are freed when their process dies, on descriptors that a fork closes. Knows nothing of what they guard.

Open-file-description (OFD) locks belong to the open file, not to the process: two threads with a descriptor each
exclude one another as two processes do, and the kernel frees the lock when the last descriptor is closed, also by
``kill -9``. A forked child would keep its parent's locks alive, so it closes inherited descriptors before it runs.
"""

import contextlib
import errno
import fcntl
import os
import resource
import struct
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

from penstock.runtime.forking import reset_in_children
from penstock.runtime.owned import open_owned

_FLOCK = "hhqqi0q"  # struct flock: type, whence, start, length, pid (0 for OFD locks), padded to its alignment
_guard = threading.RLock()  # reentrant: a finalizer may close a descriptor while this thread opens one
_open: "weakref.WeakSet[LockedFile]" = weakref.WeakSet()


class LockedFile:
    """A descriptor with the locks on it. ``fd`` is -1 once closed, and in a child that was forked with it."""

    def __init__(self, path: Path | str, flags: int, open_file: Callable[[Path | str, int], int] = open_owned) -> None:
        self.fd = -1
        # Under the guard, so that no fork happens between the open and the registration.
        with _guard:
            self.fd = _open_fd(open_file, path, flags | os.O_CLOEXEC)
            _open.add(self)

    def again(self, flags: int) -> "LockedFile":
        """Return another open file description of the inode. Opened by descriptor: the name may be unlinked."""
        return LockedFile(f"/proc/self/fd/{self.fd}", flags, os.open)

    def lock(self, start: int, length: int = 1, *, shared: bool = False, wait: bool = True) -> bool:
        """Lock a range of bytes, which need not exist.

        Args:
            shared: Whether to take a read lock instead of a write lock.
            wait: Whether to block until the lock is free.

        Returns:
            Whether the lock was taken; always true if ``wait``.
        """
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
        """Unlock explicitly, then close: closing does not unlock while a child still has a copy of the descriptor."""
        with _guard:
            fd = self.fd
            self.fd = -1
            if fd < 0:
                return
            _open.discard(self)
            try:
                fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))
            finally:
                os.close(fd)

    def __enter__(self) -> "LockedFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.fd >= 0 and not exiting():  # at shutdown a dead thread may hold the guard
            self.close()


def _open_fd(open_file: Callable[[Path | str, int], int], path: Path | str, flags: int) -> int:
    """Open, raising the soft limit on demand: a pool of many groups needs more than the usual 1,024 descriptors."""
    try:
        return open_file(path, flags)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return open_file(path, flags)


def is_free(path: Path) -> bool:
    """Return whether no process holds a lock on the first byte of a file. True if the file is gone."""
    with contextlib.suppress(FileNotFoundError), LockedFile(path, os.O_RDWR) as file:
        return file.lock(0, wait=False)
    return True


class _Inherited:
    """Descriptors inherited by a forked child. They are closed before anything else is reset."""

    def reset_after_fork(self) -> None:
        for held in list(_open):
            os.close(held.fd)  # only close: unlocking here would unlock the parent
            held.fd = -1
        _open.clear()
        _guard.release()


_inherited = _Inherited()
reset_in_children(_inherited)
os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release)
