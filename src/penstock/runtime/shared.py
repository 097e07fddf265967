"""A small file that a process shares with its worker processes, however they are started."""

import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from multiprocessing.context import get_spawning_popen


class SharedFile:
    """A temporary file that worker processes of this one share. It is removed with the object that made it.

    Args:
        content: what is in it at first.

    Attributes:
        path: of the file.
    """

    def __init__(self, content: bytes) -> None:
        handle, self.path = tempfile.mkstemp(prefix="penstock-")
        with open(handle, "wb") as file:
            file.write(content)
        weakref.finalize(self, _remove, self.path, os.getpid())

    def __reduce__(self) -> tuple[object, ...]:
        if _for_worker.get() or get_spawning_popen() is not None:
            return _same, (self.path,)
        with open(self.path, "rb") as file:
            return SharedFile, (file.read(),)  # a copy: what it does is its own


_for_worker: ContextVar[bool] = ContextVar("for_worker", default=False)


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
    shared.path = path
    return shared


def _remove(path: str, maker: int) -> None:
    if os.getpid() == maker:  # not in a forked worker, which may end before the others
        os.unlink(path)
