"""Memory that is used again once nobody holds what was made in it. Knows nothing of what that is.

Fresh memory is zeroed by the kernel, page by page, when it is first touched: for a batch of speech that takes as long
as reading it.
"""

import ctypes
import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

_KEPT = 8  # free buffers; a run that held many more for a while does not keep their memory


def lend(memory: bytearray | mmap, returned: Callable[[], object]) -> memoryview:
    """A view of ``memory``; ``returned`` is called once nobody holds it, nor any array or tensor over it."""
    lease = _lease_type(len(memory)).from_buffer(memory)
    lease.returned = returned
    return memoryview(lease).cast("B")


@cache  # there are few sizes; a class for every lease would be left to the garbage collector
def _lease_type(size: int) -> Any:
    """A ctypes array that tells when it goes: what all arrays over it keep alive, and nothing else."""
    return type("Lease", (ctypes.c_char * size,), {"__del__": lambda lease: lease.returned()})


class Memory(Protocol):
    """What a batch can be made in, other than memory of its own."""

    def take(self, size: int) -> memoryview: ...


_making_in: ContextVar[Memory | None] = ContextVar("making_in", default=None)


@contextmanager
def making_in(memory: Memory) -> Iterator[None]:
    """While the block lasts, :class:`Buffers` that this thread asks take their arrays from there."""
    token = _making_in.set(memory)
    try:
        yield
    finally:
        _making_in.reset(token)


class Buffers:
    """Arrays of one kind, their contents undefined. Safe for any number of threads."""

    def __init__(self) -> None:
        self._free: deque[mmap] = deque(maxlen=_KEPT)

    def empty(self, shape: tuple[int, ...], dtype: type[np.number[Any]]) -> NDArray[Any]:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if not size:
            return np.empty(shape, dtype)
        if (elsewhere := _making_in.get()) is not None:
            return np.frombuffer(elsewhere.take(size), dtype).reshape(shape)
        memory = self._take()
        if memory is None or len(memory) != size:
            memory = mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)  # not shared with the child of a fork
        return np.frombuffer(lend(memory, partial(self._free.append, memory)), dtype).reshape(shape)

    def _take(self) -> mmap | None:
        try:
            return self._free.pop()
        except IndexError:  # also where another thread took the last one
            return None
