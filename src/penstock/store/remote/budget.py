"""A limit on requests per second that all processes of a node share. Knows nothing of what is requested.

One small file contains the time at which the next request is due. A process takes and advances that time under a lock,
and waits for it outside the lock. The kernel frees the lock of a killed process; only its request is lost.
"""

import fcntl
import hashlib
import os
import stat
import struct
import tempfile
import time
from pathlib import Path

from penstock.runtime.boot import this_boot

DUE_TIME = struct.Struct("<d")


class RequestBudget:
    """At most ``per_second`` requests to ``name`` (a bucket, a host), evenly spaced, from all this user's processes."""

    def __init__(self, name: str, per_second: float, folder: Path | None = None) -> None:
        self._interval = 1.0 / per_second
        self._path = (folder or shared_folder()) / hashlib.sha256(name.encode()).hexdigest()[:32]
        # The monotonic clock is the same for all processes, but restarts with the machine.
        self._boot = this_boot().encode()

    def take(self) -> None:
        """Wait until the next request may be sent."""
        due = self._move(self._interval, delay=0.0)
        time.sleep(max(0.0, due - time.monotonic()))

    def pause(self, seconds: float) -> None:
        """Stop requests of all processes for some seconds, because the server has asked for it."""
        self._move(0.0, delay=seconds)

    def _move(self, interval: float, delay: float) -> float:
        """Return the time of the next request, at least ``delay`` from now, and set that of the one after it."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            data = os.pread(descriptor, 256, 0)
            now = time.monotonic()
            known = len(data) >= DUE_TIME.size and data[DUE_TIME.size :] == self._boot
            due = max(now + delay, DUE_TIME.unpack_from(data)[0] if known else 0.0)
            os.pwrite(descriptor, DUE_TIME.pack(due + interval) + self._boot, 0)
            return due
        finally:
            os.close(descriptor)


def shared_folder() -> Path:
    """Return a folder of this user that all processes of the node share."""
    folder = Path(tempfile.gettempdir()) / f"penstock-budget-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user; remove it, or set TMPDIR to a folder of your own")
    return folder
