"""Keeps C libraries from writing to stderr. Knows no decoder.

libmpg123 writes messages for MP3s that it decodes, and libsndfile, which calls it, has no option against that (its
issue 958). The descriptor stays as it is, because Python and other threads write to it. The variable ``stderr`` of
glibc is replaced while any thread is inside; messages of other C libraries are lost during that time.
"""

import ctypes
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Quiet:
    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        library.fopen.restype = ctypes.c_void_p
        self._stderr = ctypes.c_void_p.in_dll(library, "stderr")
        self._loud = self._stderr.value
        # Elsewhere the variable may be read-only.
        self._silent = library.fopen(b"/dev/null", b"we") if platform.libc_ver()[0] == "glibc" else None
        self.reset_after_fork()
        os.register_at_fork(after_in_child=self.reset_after_fork)

    def reset_after_fork(self) -> None:
        """Restore ``stderr``: the threads that were inside do not exist in the child."""
        self._lock = threading.Lock()
        self._inside = 0
        if self._silent:
            self._stderr.value = self._loud

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            if self._silent:
                self._stderr.value = self._silent

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._silent and not self._inside:
                self._stderr.value = self._loud


_quiet = _Quiet()


@contextmanager
def quiet() -> Iterator[None]:
    """Drop what C libraries write to stderr inside of the block."""
    _quiet.enter()
    try:
        yield
    finally:
        _quiet.leave()
