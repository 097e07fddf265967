"""Waits for locks of other processes, but not forever. Knows locks and processes; not what they protect.

A process that dies frees its locks, but one that is stopped (Ctrl-Z, a debugger, a frozen container) keeps them.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from penstock.runtime.waiting import waiting_for
from penstock.store.cache.locks import LockedFile

LOG_AFTER_SECONDS = 10.0
"""Seconds after which a wait is first logged, and a stopped process no longer waited for."""

UNKNOWN_SECONDS = 120.0
"""Seconds to wait for a lock whose holder is not visible, as in another container."""

_SHORT_PAUSE_SECONDS = 0.001
_LONG_PAUSE_SECONDS = 0.02
_log = logging.getLogger("penstock.cache")


def lock_in_time(lock: LockedFile, byte: int, is_done: Callable[[], bool], what: str) -> bool:
    """Wait for a write lock.

    Args:
        lock: File to lock.
        byte: Offset of the byte to lock.
        is_done: Function that returns whether the other process has done the work, so that no lock is needed.
        what: Description of the work, for the log.

    Returns:
        Whether the lock was taken. If not, the work is done, or its holder is no longer waited for.
    """
    if lock.lock(byte, wait=False):
        return True
    with waiting_for(f"another process ({what})"):
        return _wait(lock, byte, is_done, what)


def _wait(lock: LockedFile, byte: int, is_done: Callable[[], bool], what: str) -> bool:
    begin = time.monotonic()
    say_at = begin + LOG_AFTER_SECONDS
    pause = _SHORT_PAUSE_SECONDS
    while not lock.lock(byte, wait=False):
        if is_done():
            return False
        time.sleep(pause)
        pause = min(2 * pause, _LONG_PAUSE_SECONDS)
        now = time.monotonic()
        if now >= say_at:
            say_at = now + 6 * LOG_AFTER_SECONDS
            found = log_holders(lock, byte, what, now - begin)
            if "T" in found.values() or (not found and now - begin >= UNKNOWN_SECONDS):
                _log.warning("not waiting any longer for %s", what)
                return False
    return True


def log_holders(lock: LockedFile, byte: int, what: str, waited: float) -> dict[int, str]:
    """Log which processes hold a lock. Returns their states by process id."""
    found = dict(holders(lock, byte))
    who = [f"process {pid}" + (", which is stopped," if state == "T" else "") for pid, state in found.items()]
    holds = " and ".join(who) or "a process that is not visible"
    _log.warning("waiting for %s for %.0f s: %s holds its lock", what, waited, holds)
    return found


def holders(lock: LockedFile, byte: int) -> Iterator[tuple[int, str]]:
    """Yield the processes with a write lock on a byte of this file, and their state (a letter of ``ps``; T: stopped).

    The kernel does not tell whose an open-file-description lock is, but lists the locks of each open file.
    """
    wanted = os.fstat(lock.fd)
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):  # it ended, or it is another user's
            if any(_holds(name, fd, wanted, byte) for fd in os.listdir(f"/proc/{name}/fd")):
                yield int(name), _state(name)


def _holds(pid: str, fd: str, wanted: os.stat_result, byte: int) -> bool:
    """Return whether a descriptor of a process is open on this file and holds the lock. False if closed meanwhile."""
    try:
        found = os.stat(f"/proc/{pid}/fd/{fd}")
        return (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino) and _locks(pid, fd, byte)
    except FileNotFoundError:
        return False


def _locks(pid: str, fd: str, byte: int) -> bool:
    """Return whether an open file holds a write lock on the byte.

    A line of its ``fdinfo`` reads, for example, ``lock: 1: OFDLCK ADVISORY WRITE -1 00:1f:4711 0 0``.
    """
    with open(f"/proc/{pid}/fdinfo/{fd}") as lines:
        for line in lines:
            words = line.split()
            if words[:1] == ["lock:"] and "WRITE" in words and "->" not in words:
                last = int(words[-1]) if words[-1] != "EOF" else byte
                if int(words[-2]) <= byte <= last:
                    return True
    return False


def _state(pid: str) -> str:
    with open(f"/proc/{pid}/stat") as line:
        return line.read().rpartition(")")[2].split()[0].upper()
