"""A run of bytes that a decoder may read parts of: a tar member in an open blob, bytes in memory. Knows no format."""

from typing import NamedTuple, Protocol

import numpy as np

from penstock.store.blob import Blob
from penstock.store.local import LocalBlob


class Span(Protocol):
    """What a decoder asks of its input; an open :class:`Blob` is one already."""

    @property
    def size(self) -> int: ...

    def readinto(self, buffer: memoryview, offset: int) -> None: ...


class Slice(NamedTuple):
    """``size`` bytes of a blob from ``start`` on, such as one member of a tar."""

    blob: Blob
    start: int
    size: int

    def readinto(self, buffer: memoryview, offset: int) -> None:
        self.blob.readinto(buffer, self.start + offset)


class InMemory:
    """Bytes that are here already, as a span."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = memoryview(data).cast("B")
        self.size = len(self._data)

    def readinto(self, buffer: memoryview, offset: int) -> None:
        buffer[:] = self._data[offset : offset + len(buffer)]


def in_place(span: Span) -> memoryview | None:
    """The bytes where they are, in the map of a local file; None where they have to be read."""
    if isinstance(span, Slice) and isinstance(span.blob, LocalBlob):
        return span.blob.view(span.start, span.size)
    return None


def read(span: Span, offset: int, size: int) -> bytearray:
    """The bytes [offset, offset + size), fewer only where the span ends."""
    data = bytearray(max(0, min(size, span.size - offset)))
    if data:
        span.readinto(memoryview(data), offset)
    return data


def read_all(span: Span) -> bytes:
    """The whole span. Through an array, as new bytes would first be filled with zeros."""
    data = np.empty(span.size, np.uint8)
    if span.size:
        span.readinto(data.data, 0)
    return data.tobytes()
