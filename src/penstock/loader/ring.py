"""Slots of shared memory that batches pass through: written by a worker process, read in place by the trainer.

A slot is an anonymous file in memory, without a name that could outlive a crash; it grows to the largest batch it has
carried. A batch is pickled with its arrays' bytes out of band: those lie in the slot, the rest goes through a pipe.
"""

import fcntl
import io
import mmap
import os
import pickle
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.media.lending import lend

_ALIGN = 64  # bytes: a cache line, and what vector instructions like

Layout = list[tuple[int, int]]  # (offset, size) of each array in the slot


class FreeSlots:
    """Which slots are free, known to the trainer and to its workers. The one that was given back last is taken first:

    so no more slots are in turn than are needed at once, and they stay in the CPU's cache.
    """

    def __init__(self, fd: int) -> None:
        self.fd, self._process = fd, os.getpid()
        # Of each slot when it was given back, in nanoseconds; 0: in use. Only who uses a slot gives it back, so that
        # needs no lock; who takes one must be alone, and a process that is killed leaves no lock behind.
        self._since = np.frombuffer(mmap.mmap(fd, 0), dtype=np.int64)

    @classmethod
    def create(cls, count: int) -> "FreeSlots":
        fd = os.memfd_create("penstock")
        os.write(fd, np.ones(count, dtype=np.int64).tobytes())
        return cls(fd)

    def take(self) -> int:
        """A free slot; there must be one."""
        fcntl.lockf(self.fd, fcntl.LOCK_EX)
        slot = int(self._since.argmax())
        self._since[slot] = 0
        fcntl.lockf(self.fd, fcntl.LOCK_UN)
        return slot

    def give_back(self, slot: int) -> None:
        if os.getpid() == self._process:  # a forked child that drops its copy of a batch takes it from nobody
            self._since[slot] = time.monotonic_ns()

    def close(self) -> None:
        os.close(self.fd)


class Slot:
    """One piece of shared memory, by its descriptor. Both sides have their own Slot over the same file."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map: mmap.mmap | None = None
        self._end = 0  # of what is in use
        self._taken: dict[int, int] = {}  # offsets by address, of what was taken since the last batch

    @classmethod
    def create(cls) -> "Slot":
        return cls(os.memfd_create("penstock"))

    def _mapped(self, size: int) -> mmap.mmap:
        if os.fstat(self.fd).st_size < size:
            os.ftruncate(self.fd, size)
        if self._map is None or len(self._map) < size:
            self._map = mmap.mmap(self.fd, os.fstat(self.fd).st_size)
        return self._map

    def take(self, size: int) -> memoryview:
        """A piece of the slot, for an array of the batch that is written next: it need not be copied then."""
        offset = self._reserve(size)
        piece = memoryview(self._mapped(self._end))[offset : offset + size]
        self._taken[_address(piece)] = offset
        return piece

    def write(self, batch: Any) -> tuple[bytes, Layout]:
        """Store a batch's arrays here; returns the rest of it, and where each array lies."""
        buffers: list[pickle.PickleBuffer] = []
        stream = io.BytesIO()
        _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(batch)
        layout = [self._store(buffer.raw()) for buffer in buffers]
        self._end = 0
        self._taken.clear()
        return stream.getvalue(), layout

    def _store(self, array: memoryview) -> tuple[int, int]:
        size = array.nbytes
        offset = self._taken.get(_address(array)) if size else 0
        if offset is None:
            offset = self._reserve(size)
            memory = np.frombuffer(self._mapped(self._end), dtype=np.uint8)
            np.copyto(memory[offset : offset + size], np.frombuffer(array, dtype=np.uint8))
        return offset, size

    def _reserve(self, size: int) -> int:
        offset = self._end
        self._end += -(-size // _ALIGN) * _ALIGN
        return offset

    def lend(self, header: bytes, layout: Layout, release: Callable[[], None]) -> Any:
        """The batch that ``write`` stored, in place. ``release`` is called once nobody holds any of its arrays."""
        memory = self._mapped(_end_of(layout))
        view = lend(memory, release)
        return pickle.loads(header, buffers=[view[offset : offset + size] for offset, size in layout])

    def copy(self, header: bytes, layout: Layout) -> Any:
        """The batch that ``write`` stored, in memory of its own."""
        memory = self._mapped(_end_of(layout))
        return pickle.loads(header, buffers=[bytearray(memory[offset : offset + size]) for offset, size in layout])

    def close(self) -> None:
        os.close(self.fd)  # arrays that are still held keep their mapping


def _end_of(layout: Layout) -> int:
    return max((offset + size for offset, size in layout if size), default=1)  # nothing can't be mapped


def _address(view: memoryview) -> int:
    place: int = np.frombuffer(view, dtype=np.uint8).__array_interface__["data"][0]
    return place


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and type(obj) is torch.Tensor and obj.device.type == "cpu" and not obj.requires_grad:
            try:
                return torch.from_numpy, (obj.contiguous().numpy(),)
            except TypeError:  # bfloat16 and others that numpy does not have: pickled as torch does it
                pass
        return NotImplemented
