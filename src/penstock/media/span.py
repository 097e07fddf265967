"""Bytes that a decoder reads in parts: a tar member in an open blob, or bytes in memory. Knows no format."""

from typing import NamedTuple, Protocol

import numpy as np

from penstock.store.blob import Blob
from penstock.store.local import LocalBlob


class ByteSpan(Protocol):
    """The input of a decoder. An open :class:`Blob` is one."""

    @property
    def size(self) -> int:
        """The number of bytes."""
        ...

    def readinto(self, buffer: memoryview, offset: int) -> None:
        """Fill the whole buffer with the bytes from ``offset`` on."""
        ...


class MappedSpan(ByteSpan, Protocol):
    """A span whose bytes may already be in memory."""

    def in_place(self) -> memoryview | None:
        """Return the bytes zero-copy, such as from the memory map of a local file, or None if they must be read."""
        ...


class Slice(NamedTuple):
    """``size`` bytes of a blob from ``start`` on, such as one member of a tar."""

    blob: Blob
    start: int
    size: int

    def readinto(self, buffer: memoryview, offset: int) -> None:
        self.blob.readinto(buffer, self.start + offset)

    def in_place(self) -> memoryview | None:
        return self.blob.view(self.start, self.size) if isinstance(self.blob, LocalBlob) else None


class InMemory:
    """Bytes in memory, as a span."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = memoryview(data).cast("B")
        self.size = len(self._data)

    def readinto(self, buffer: memoryview, offset: int) -> None:
        buffer[:] = self._data[offset : offset + len(buffer)]

    def in_place(self) -> memoryview | None:
        return None


def read(span: ByteSpan, offset: int, size: int) -> bytearray:
    """Return the bytes [offset, offset + size), fewer only if the span ends."""
    data = bytearray(max(0, min(size, span.size - offset)))
    if data:
        span.readinto(memoryview(data), offset)
    return data


def read_all(span: ByteSpan) -> bytes:
    """Return all bytes."""
    # An array, as a bytearray would be filled with zeros first.
    data = np.empty(span.size, np.uint8)
    if span.size:
        span.readinto(data.data, 0)
    return data.tobytes()
