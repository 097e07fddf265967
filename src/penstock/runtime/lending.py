"""Memory that is reused once all arrays over it are freed. Knows nothing of its content.

The kernel zeroes fresh memory, page by page, when it is first touched. For a batch of speech this takes as long as
reading the batch.
"""

import ctypes
import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)
_KEPT_BUFFERS = 8  # free ones; the memory of more is returned to the system


def lend(memory: bytearray | mmap, returned: Callable[[], object]) -> memoryview:
    """Return a view of ``memory`` whose release is reported.

    Args:
        memory: Memory to lend.
        returned: Function called when the view and every array or tensor over it have been freed.
    """
    lease = _lease_type(len(memory)).from_buffer(memory)
    lease.returned = returned
    return memoryview(lease).cast("B")


@cache  # there are few sizes; classes are only freed by the garbage collector
def _lease_type(size: int) -> Any:
    """Return a ctypes array type that calls ``returned`` when it is freed: every array over it keeps it alive."""
    return type("Lease", (ctypes.c_char * size,), {"__del__": lambda lease: lease.returned()})


class Memory(Protocol):
    """Memory in which the arrays of a batch can be made."""

    def take(self, size: int) -> memoryview:
        """Return ``size`` bytes."""
        ...


_making_in: ContextVar[Memory | None] = ContextVar("making_in", default=None)


@contextmanager
def making_in(memory: Memory) -> Iterator[None]:
    """Within the block, :class:`Buffers` take their arrays from ``memory`` when called by this thread."""
    token = _making_in.set(memory)
    try:
        yield
    finally:
        _making_in.reset(token)


class Buffers:
    """Uninitialised arrays, mostly of one size, whose memory is reused. Safe for any number of threads."""

    def __init__(self) -> None:
        self._free: deque[mmap] = deque(maxlen=_KEPT_BUFFERS)

    def __reduce__(self) -> tuple[type["Buffers"], tuple[()]]:
        return Buffers, ()  # memory is not pickled

    def empty(self, shape: tuple[int, ...], dtype: type[Scalar]) -> NDArray[Scalar]:
        """Return an uninitialised array."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if not size:
            return np.empty(shape, dtype)
        if (elsewhere := _making_in.get()) is not None:
            return np.frombuffer(elsewhere.take(size), dtype).reshape(shape)
        memory = self._take()
        if memory is None or len(memory) != size:
            memory = mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)  # private: not shared with a forked child
        return np.frombuffer(lend(memory, partial(self._free.append, memory)), dtype).reshape(shape)

    def _take(self) -> mmap | None:
        try:
            return self._free.pop()
        except IndexError:  # also if another thread took the last one
            return None
