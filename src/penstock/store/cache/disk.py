"""Errors of the disk under a cache, with advice. Knows nothing of locks or parts."""

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from penstock.runtime.owned import NotOwned


class CacheDiskError(OSError):
    """The disk under the cache failed; the message says what to do."""


DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk that has no space left for this user."""

_ADVICE = {
    errno.ENOSPC: "the disk is full: free space on it, or give the cache a smaller size",
    errno.EDQUOT: "the disk quota is used up: free space, or give the cache a smaller size",
    errno.EROFS: "the file system is read-only: give the cache a folder that can be written",
    errno.EACCES: "no permission: give the cache a folder that this user may write",
    errno.EPERM: "no permission: give the cache a folder that this user may write",
    errno.EIO: "the disk fails to read or write: is it still there and healthy?",
    errno.ENODEV: "the disk is gone: was it unmounted?",
    errno.ENOENT: "the folder is gone: was the disk unmounted, or the cache removed under a running job?",
    errno.ESTALE: "the network file system lost the file: put the cache on a local disk",
    errno.ENOLCK: "the file system is out of locks: put the cache on a local disk",
    errno.EOPNOTSUPP: "the file system has no OFD locks: put the cache on a local disk",
    errno.EINVAL: "the file system refuses the call (no OFD locks?): put the cache on a local disk",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n) or make the pool smaller",
    errno.ENOTDIR: "a file lies where the cache needs a folder: give the cache another folder",
}


class Space(NamedTuple):
    """Bytes of a disk that a cache may take: those that it holds, and those that are free."""

    held: int
    free: int

    @property
    def total(self) -> int:
        return self.held + self.free

    @staticmethod
    def free_under(folder: Path) -> int:
        """Bytes that this user may still write."""
        return shutil.disk_usage(folder).free


@contextlib.contextmanager
def explaining_disk_errors(folder: Path) -> Iterator[None]:
    """Turn an OSError into a CacheDiskError that says where, why and what to do."""
    try:
        yield
    except (CacheDiskError, NotOwned):
        raise
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "see the cause")
        where = f" ({error.filename})" if error.filename else ""
        message = f"cache {folder}: {advice}{where}; {_free(folder)}{error.strerror}"
        raise CacheDiskError(error.errno, message) from error


def _free(folder: Path) -> str:
    try:
        return f"{Space.free_under(folder):,} bytes free; "
    except OSError:
        return ""
