"""A blob seen through one buffer that moves forward, for walks that touch little of it or all of it in order."""

from collections.abc import Iterator

from penstock.store.blob import Blob


class Window:
    """Not for several threads at once. A view is valid until the next call."""

    def __init__(self, blob: Blob, span: int):
        self.size = blob.size
        self._blob = blob
        self._buffer = memoryview(bytearray(min(span, max(blob.size, 1))))
        self._start = self._end = 0

    def view(self, offset: int, size: int) -> memoryview:
        """The bytes from ``offset`` on; the window moves there if it must."""
        if not self._start <= offset <= offset + size <= self._end:
            if size > len(self._buffer):
                self._buffer = memoryview(bytearray(size))
            # Nothing is held until the read succeeded.
            self._start = self._end = 0
            count = min(len(self._buffer), max(size, self.size - offset))
            self._blob.readinto(self._buffer[:count], offset)
            self._start, self._end = offset, offset + count
        return self._buffer[offset - self._start : offset - self._start + size]

    def pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """The same bytes in parts no longer than the window."""
        end = offset + size
        while offset < end:
            ready = self._end - offset if self._start <= offset < self._end else len(self._buffer)
            count = min(end - offset, ready)
            yield self.view(offset, count)
            offset += count

    def peek(self, offset: int, size: int) -> bytes:
        """A copy of bytes that may lie behind; the window stays where it is."""
        if self._start <= offset <= offset + size <= self._end:
            return bytes(self._buffer[offset - self._start : offset - self._start + size])
        buffer = bytearray(size)
        self._blob.readinto(memoryview(buffer), offset)
        return bytes(buffer)
