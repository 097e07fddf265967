"""A limit on requests per second that all processes of a node share. Knows nothing of what is requested.

One small file contains the time of the next free turn. A process takes the turn under a lock, advances the time, and
waits for its turn outside the lock. The kernel frees the lock of a killed process; only its turn is lost.
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

SLOT = struct.Struct("<d")


class RequestBudget:
    """At most ``per_second`` requests to ``name`` (a bucket, a host), evenly spaced, from all this user's processes."""

    def __init__(self, name: str, per_second: float, folder: Path | None = None) -> None:
        self._space = 1.0 / per_second
        self._path = (folder or shared_folder()) / hashlib.sha256(name.encode()).hexdigest()[:32]
        # The monotonic clock is the same for all processes, but restarts with the machine.
        self._boot = this_boot().encode()

    def take(self) -> None:
        """Return when it is this request's turn."""
        slot = self._move(self._space, at_least=0.0)
        time.sleep(max(0.0, slot - time.monotonic()))

    def pause(self, seconds: float) -> None:
        """Send nothing for so many seconds, in all processes, because the server has asked for it."""
        self._move(0.0, at_least=seconds)

    def _move(self, space: float, at_least: float) -> float:
        """Return the next free turn, ``at_least`` so many seconds from now. The one after it is ``space`` later."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            data = os.pread(descriptor, 256, 0)
            now = time.monotonic()
            known = len(data) >= SLOT.size and data[SLOT.size :] == self._boot
            slot = max(now + at_least, SLOT.unpack_from(data)[0] if known else 0.0)
            os.pwrite(descriptor, SLOT.pack(slot + space) + self._boot, 0)
            return slot
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
