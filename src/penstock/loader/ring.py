"""Slots of shared memory for batches: written by a worker process, read zero-copy by the trainer.

A slot is an anonymous file in memory (memfd): it has no name, so nothing is left after a crash. It grows to the size of
its largest batch. It holds one batch: first the arrays, then the rest, pickled.
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

from penstock.runtime.forking import reset_in_children
from penstock.runtime.lending import lend

_ALIGNMENT_BYTES = 64  # a cache line, and the alignment for vector instructions
_SLOT = pickle.PickleBuffer(bytearray(1))  # placeholder for the memory of the slot in pickled data

SlotRange = tuple[int, int]
"""First byte of a range in a slot, and the byte after the last."""


class FreeSlots:
    """The free slots of a worker. The worker takes them, the trainer gives them back.

    The slot that was given back last is taken first, so few slots are used, and they stay in the CPU cache.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._inherited = False
        # When each slot was given back, in nanoseconds; 0: in use. Only the process that has a slot writes its element,
        # so no lock is needed, which a killed process could leave locked.
        self._since = np.frombuffer(mmap.mmap(fd, 0), dtype=np.int64)
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._inherited = True

    @classmethod
    def create(cls, count: int) -> "FreeSlots":
        """Return a new list of ``count`` free slots."""
        fd = os.memfd_create("penstock")
        os.write(fd, np.ones(count, dtype=np.int64).tobytes())
        return cls(fd)

    def take(self) -> int:
        """Take a free slot.

        Raises:
            RuntimeError: If all slots are in use.
        """
        slot = int(self._since.argmax())
        if not self._since[slot]:
            raise RuntimeError(f"all {len(self._since)} slots of a worker are in use")
        self._since[slot] = 0
        return slot

    def give_back(self, slot: int) -> None:
        """Mark a slot as free."""
        if not self._inherited:  # in a forked child, dropping a copy of a batch must not free the parent's slot
            self._since[slot] = time.monotonic_ns()

    def close(self) -> None:
        os.close(self.fd)


class Slot:
    """Shared memory for one batch. Trainer and worker each have a ``Slot`` over the same descriptor."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map: mmap.mmap | None = None
        self._end = 0  # of the part in use
        # Pieces taken since the last batch and their offsets, by address. Holding a piece keeps its address valid even
        # if the slot grows and is mapped elsewhere.
        self._taken: dict[int, tuple[int, memoryview]] = {}

    @classmethod
    def create(cls) -> "Slot":
        """Return a new, empty slot."""
        return cls(os.memfd_create("penstock"))

    def _mapped(self, size: int) -> mmap.mmap:
        if self._map is None or len(self._map) < size:
            if os.fstat(self.fd).st_size < size:
                os.ftruncate(self.fd, size)
            self._map = mmap.mmap(self.fd, os.fstat(self.fd).st_size)
        return self._map

    def take(self, size: int) -> memoryview:
        """Return a piece of the slot for an array of the next batch. ``write`` does not copy such an array."""
        offset = self._reserve(size)
        piece = memoryview(self._mapped(self._end))[offset : offset + size]
        self._taken[_address(np.frombuffer(piece, np.uint8))] = offset, piece
        return piece

    def write(self, batch: object) -> SlotRange:
        """Store a batch. Arrays in pieces from ``take`` are not copied.

        Returns:
            Range of the pickled part of the batch.
        """
        stream = io.BytesIO()
        _Pickler(stream, self._place).dump(batch)
        size = stream.tell()
        start = self._reserve(size)
        self._mapped(self._end)[start : start + size] = stream.getbuffer()
        self.clear()
        return start, start + size

    def clear(self) -> None:
        """Forget all pieces, for the next batch."""
        self._end = 0
        self._taken.clear()

    def _place(self, array: NDArray[Any]) -> int:
        """Return the offset of an array in the slot. Copies it, C-contiguous, unless it is there already."""
        if array.flags.c_contiguous and (taken := self._taken.get(_address(array))) is not None:
            return taken[0]
        offset = self._reserve(array.nbytes)
        np.copyto(np.ndarray(array.shape, array.dtype, self._mapped(self._end), offset), array)
        return offset

    def _reserve(self, size: int) -> int:
        offset = self._end
        self._end += -(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        return offset

    def lend(self, where: SlotRange, release: Callable[[], None]) -> Any:
        """Return the batch that ``write`` stored, zero-copy.

        Args:
            where: Range that ``write`` returned.
            release: Function that is called once no array of the batch is referenced any more.
        """
        memory = lend(self._mapped(where[1]), release)
        return pickle.loads(memory[slice(*where)], buffers=repeat(memory))

    def copy(self, where: SlotRange) -> Any:
        """Return a copy of the batch that ``write`` stored."""
        memory = self._mapped(where[1])
        return pickle.loads(memory[slice(*where)], buffers=repeat(memory))

    def close(self) -> None:
        os.close(self.fd)  # arrays that are still held keep their mapping


def _address(array: NDArray[Any]) -> int:
    place: int = array.__array_interface__["data"][0]
    return place


class _Pickler(pickle.Pickler):
    """Pickles the offset of each array in the slot instead of its content."""

    def __init__(self, stream: io.BytesIO, place: Callable[[NDArray[Any]], int]) -> None:
        super().__init__(stream, protocol=5, buffer_callback=lambda buffer: buffer is not _SLOT)
        self._place = place

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is np.ndarray and obj.nbytes and not obj.dtype.hasobject:
            axes = None if obj.flags.c_contiguous else sorted(range(obj.ndim), key=lambda axis: -obj.strides[axis])
            array = obj if axes is None else obj.transpose(axes)  # as it lies in memory
            kind = obj.dtype.str if obj.dtype.isbuiltin == 1 else obj.dtype
            return _array, (array.shape, kind, _SLOT, self._place(array), axes)
        torch = sys.modules.get("torch")
        if torch is not None and type(obj) is torch.Tensor and obj.device.type == "cpu" and not obj.requires_grad:
            try:
                return torch.from_numpy, (obj.numpy(),)
            except (TypeError, RuntimeError):  # nested tensors, bfloat16 and other types that numpy does not have
                pass  # torch pickles it
        return NotImplemented


def _array(
    shape: tuple[int, ...],
    kind: str | np.dtype[Any],
    memory: memoryview | mmap.mmap,
    offset: int,
    axes: list[int] | None,
) -> NDArray[Any]:
    """Return an array over lent memory, or a copy of an array in the slot.

    Args:
        shape: Shape of the array as it lies in memory.
        kind: Type of its elements.
        memory: Lent memory, or the slot.
        offset: First byte of the array.
        axes: Axis of the array in each axis of the memory; None if they are the same.
    """
    array: NDArray[Any] = np.ndarray(shape, kind, memory, offset)
    if axes is not None:
        array = array.transpose(np.argsort(axes))
    return array if isinstance(memory, memoryview) else array.copy(order="K")
