"""Slots of shared memory that batches pass through: written by a worker process, read in place by the trainer.

A slot is an anonymous file in memory, without a name that could outlive a crash; it grows to the largest batch it has
carried. A batch lies in it whole: its arrays first, then the rest, pickled.
"""

import io
import mmap
import os
import pickle
import sys
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.runtime.lending import lend

_ALIGN = 64  # bytes: a cache line, and what vector instructions like
_SLOT = pickle.PickleBuffer(bytearray(1))  # stands for the memory of the slot in what is pickled

Where = tuple[int, int]  # first byte in the slot, and the one after the last


class FreeSlots:
    """Which slots of a worker are free. It takes them, the trainer gives them back.

    The one that was given back last is taken first: so no more slots are in turn than are needed at once, and they stay
    in the cache of the worker's CPU.
    """

    def __init__(self, fd: int) -> None:
        self.fd, self._process = fd, os.getpid()
        # Of each slot when it was given back, in nanoseconds; 0: in use. Each is written by who has it, so there is no
        # lock that a process could leave behind when it is killed.
        self._since = np.frombuffer(mmap.mmap(fd, 0), dtype=np.int64)

    @classmethod
    def create(cls, count: int) -> "FreeSlots":
        fd = os.memfd_create("penstock")
        os.write(fd, np.ones(count, dtype=np.int64).tobytes())
        return cls(fd)

    def take(self) -> int:
        """A free slot; there must be one."""
        slot = int(self._since.argmax())
        if not self._since[slot]:
            raise RuntimeError(f"all {len(self._since)} slots of a worker are in use")
        self._since[slot] = 0
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
        # By address, the pieces taken since the last batch and their offsets. A piece that is held keeps its address,
        # also when the slot has grown and is mapped elsewhere.
        self._taken: dict[int, tuple[int, memoryview]] = {}

    @classmethod
    def create(cls) -> "Slot":
        return cls(os.memfd_create("penstock"))

    def _mapped(self, size: int) -> mmap.mmap:
        if self._map is None or len(self._map) < size:
            if os.fstat(self.fd).st_size < size:
                os.ftruncate(self.fd, size)
            self._map = mmap.mmap(self.fd, os.fstat(self.fd).st_size)
        return self._map

    def take(self, size: int) -> memoryview:
        """A piece of the slot, for an array of the batch that is written next: it need not be copied then."""
        offset = self._reserve(size)
        piece = memoryview(self._mapped(self._end))[offset : offset + size]
        self._taken[_address(np.frombuffer(piece, np.uint8))] = offset, piece
        return piece

    def write(self, batch: Any) -> Where:
        """Store a batch here, in which arrays may have been made already; returns where the rest of it lies."""
        stream = io.BytesIO()
        _Pickler(stream, self._place).dump(batch)
        size = stream.tell()
        start = self._reserve(size)
        self._mapped(self._end)[start : start + size] = stream.getbuffer()
        self.clear()
        return start, start + size

    def clear(self) -> None:
        """Begin anew."""
        self._end = 0
        self._taken.clear()

    def _place(self, array: NDArray[Any]) -> int:
        """Where an array lies in the slot, by now at the latest."""
        if (taken := self._taken.get(_address(array))) is not None:
            return taken[0]
        offset = self._reserve(array.nbytes)
        np.copyto(np.ndarray(array.shape, array.dtype, self._mapped(self._end), offset), array)
        return offset

    def _reserve(self, size: int) -> int:
        offset = self._end
        self._end += -(-size // _ALIGN) * _ALIGN
        return offset

    def lend(self, where: Where, release: Callable[[], None]) -> Any:
        """The batch that ``write`` stored, in place. ``release`` is called once nobody holds any of its arrays."""
        memory = lend(self._mapped(where[1]), release)
        return pickle.loads(memory[slice(*where)], buffers=repeat(memory))

    def copy(self, where: Where) -> Any:
        """The batch that ``write`` stored, each array in memory of its own: who keeps one does not keep the others."""
        memory = self._mapped(where[1])
        return pickle.loads(memory[slice(*where)], buffers=repeat(memory))

    def close(self) -> None:
        os.close(self.fd)  # arrays that are still held keep their mapping


def _address(array: NDArray[Any]) -> int:
    place: int = array.__array_interface__["data"][0]
    return place


class _Pickler(pickle.Pickler):
    """Asks where in the slot each array lies, and pickles no more of it."""

    def __init__(self, stream: io.BytesIO, place: Callable[[NDArray[Any]], int]) -> None:
        super().__init__(stream, protocol=5, buffer_callback=lambda buffer: buffer is not _SLOT)
        self._place = place

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is np.ndarray and obj.nbytes and not obj.dtype.hasobject:
            array, kind = np.asarray(obj, order="C"), obj.dtype
            return _array, (array.shape, kind.str if kind.isbuiltin == 1 else kind, _SLOT, self._place(array))
        torch = sys.modules.get("torch")
        if torch is not None and type(obj) is torch.Tensor and obj.device.type == "cpu" and not obj.requires_grad:
            try:
                return torch.from_numpy, (obj.numpy(),)
            except TypeError:  # bfloat16 and others that numpy does not have: pickled as torch does it
                pass
        return NotImplemented


def _array(shape: tuple[int, ...], kind: Any, memory: memoryview | mmap.mmap, offset: int) -> NDArray[Any]:
    """An array that lies in memory that is lent, or a copy of it out of the slot itself."""
    array: NDArray[Any] = np.ndarray(shape, kind, memory, offset)
    return array if isinstance(memory, memoryview) else array.copy()
