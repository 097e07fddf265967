"""A blob read through one buffer that moves forward, for access in order. Knows nothing of what is in it."""

from collections.abc import Iterator

from penstock.store.blob import Blob


class Window:
    """A buffer over part of a blob. For one thread at a time; a view is valid until the next call.

    Args:
        blob: Blob to read.
        span: Size of the buffer in bytes. It grows if a larger view is requested.
    """

    def __init__(self, blob: Blob, span: int):
        self.size = blob.size
        self._blob = blob
        self._buffer = memoryview(bytearray(min(span, max(blob.size, 1))))
        self._start = 0
        self._end = 0

    def view(self, offset: int, size: int) -> memoryview:
        """Return ``size`` bytes from ``offset`` on. The window moves there if necessary."""
        if not self._start <= offset <= offset + size <= self._end:
            if size > len(self._buffer):
                self._buffer = memoryview(bytearray(size))
            # The window is empty until the read has succeeded.
            self._start = 0
            self._end = 0
            count = min(len(self._buffer), max(size, self.size - offset))
            self._blob.readinto(self._buffer[:count], offset)
            self._start = offset
            self._end = offset + count
        return self._buffer[offset - self._start : offset - self._start + size]

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Yield the same bytes in parts that are no longer than the window."""
        end = offset + size
        while offset < end:
            ready = self._end - offset if self._start <= offset < self._end else len(self._buffer)
            count = min(end - offset, ready)
            yield self.view(offset, count)
            offset += count

    def peek(self, offset: int, size: int) -> bytes:
        """Return a copy of bytes that may lie before the window. The window does not move."""
        if self._start <= offset <= offset + size <= self._end:
            return bytes(self._buffer[offset - self._start : offset - self._start + size])
        buffer = bytearray(size)
        self._blob.readinto(memoryview(buffer), offset)
        return bytes(buffer)
