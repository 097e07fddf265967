"""A small file in memory that a process shares with its worker processes, however they are started."""

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from multiprocessing.context import get_spawning_popen


class SharedFile:
    """An unnamed file shared with worker processes. The kernel removes it with the last of them.

    Args:
        content: Initial content.
    """

    def __init__(self, content: bytes) -> None:
        self._keep(os.memfd_create("penstock"))
        if content:
            os.write(self._descriptor, content)

    def _keep(self, descriptor: int) -> None:
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    @property
    def path(self) -> str:
        """Path at which this process can open it. Each open file has its own position and locks."""
        return f"/proc/self/fd/{self._descriptor}"

    def __reduce__(self) -> tuple[object, ...]:
        if is_for_worker():
            return _same, (f"/proc/{os.getpid()}/fd/{self._descriptor}",)
        with open(self.path, "rb") as file:
            return SharedFile, (file.read(),)  # an independent copy


_for_worker: ContextVar[bool] = ContextVar("for_worker", default=False)


def is_for_worker() -> bool:
    """Return whether this thread is pickling for a worker process on this machine."""
    return _for_worker.get() or get_spawning_popen() is not None


@contextmanager
def pickling_for_workers() -> Iterator[None]:
    """Within the block, what this thread pickles is for worker processes. Those of ``multiprocessing`` need none."""
    token = _for_worker.set(True)
    try:
        yield
    finally:
        _for_worker.reset(token)


def _same(path: str) -> SharedFile:
    shared = SharedFile.__new__(SharedFile)
    shared._keep(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    return shared
