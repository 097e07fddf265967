"""Spans: consecutive record batches of a file that are read together. Knows no column's meaning.

Small batches are joined, up to a number of bytes and rows; a large batch is a span of its own.
"""

from typing import NamedTuple

from penstock.readers.arrow.messages import PREFIX, BatchMessage, Head, NotArrow, batch_message, metadata_end
from penstock.readers.ranges import Ranges

JOINED_ROWS = 8_192  # of a span at most, unless it is one batch that has more
MOST_JOINED_BYTES = 4 << 20  # bytes of a span at most, unless it is one batch that has more
MOST_ROWS = 1 << 27
MOST_BYTES = 1 << 36
_LEAST_JOINED_BYTES = 960 << 10  # the same at the beginning of a file: few, so that a run begins soon
_APART_BYTES = 16 << 10  # read to see where a batch ends: as a rule more than its metadata takes
_CLOSE_BYTES = 256 << 10  # the same, where batches are small
_SMALL_BYTES = 64 << 10  # of a batch: more of them would take many requests, each of which waits for the one before


class BatchSpan(NamedTuple):
    """Record batches that are read together.

    Attributes:
        start: First byte of the first batch.
        end: Byte after the last batch.
        rows: Number of rows of all batches.
    """

    start: int
    end: int
    rows: int


class BatchSpans:
    """Finds the spans of one file by the metadata of its record batches. Their bodies are not read.

    Args:
        ranges: Reads the file by ranges.
        path: Path of the file.
        head: Head of the file.
    """

    def __init__(self, ranges: Ranges, path: str, head: Head) -> None:
        self._ranges = ranges
        self._path = path
        self._head = head

    def find(self, start: int) -> BatchSpan:
        """Return the span that begins at a byte.

        Raises:
            NotArrow: If there are no record batches at that byte, or they are damaged.
        """
        at = start
        rows = 0
        most = start + max(_LEAST_JOINED_BYTES, min(start, MOST_JOINED_BYTES))
        heads = _Heads(self._ranges, self._path, self._head.size, most)
        while at < min(most, self._head.end):
            message = self._message(heads, at)
            if message is None or (rows and (at + message.size > most or rows + message.rows > JOINED_ROWS)):
                break
            at += message.size
            rows += message.rows
            heads.ahead = _CLOSE_BYTES if message.size < _SMALL_BYTES else _APART_BYTES
        if rows >= MOST_ROWS or at - start >= MOST_BYTES:
            raise NotArrow(f"a record batch of {rows:,} rows and {at - start:,} bytes is too large")
        return BatchSpan(start, at, rows)

    def _message(self, heads: "_Heads", at: int) -> BatchMessage | None:
        """Return the message of the record batch at a byte; None at the end."""
        body = metadata_end(heads.read(at, at + PREFIX.size))
        if not body:
            self._require_end(at + PREFIX.size)
            return None
        message = batch_message(heads.read(at, at + body))
        if at + message.size > self._head.end:
            raise NotArrow("a record batch is truncated")
        return message

    def _require_end(self, at: int) -> None:
        """Refuse a file whose messages end before its footer: batches would be lost."""
        if self._head.end < self._head.size and self._head.end - at >= PREFIX.size:
            raise NotArrow("there is more between its record batches and its footer")


class _Heads:
    """The beginnings of consecutive messages.

    Args:
        ranges: Reads the file by ranges.
        path: Path of the file.
        size: Size of the file in bytes.
        end: Byte after the last that is needed.

    Attributes:
        ahead: Number of bytes to read at a time.
    """

    def __init__(self, ranges: Ranges, path: str, size: int, end: int) -> None:
        self._ranges = ranges
        self._path = path
        self._size = size
        self._end = min(end, size)
        self._first = 0
        self._data = memoryview(b"")
        self.ahead = _APART_BYTES

    def read(self, start: int, end: int) -> memoryview:
        """Return bytes of the file.

        Raises:
            NotArrow: If it has fewer.
        """
        if end > self._size:
            raise NotArrow("it is truncated")
        if not self._first <= start <= end <= self._first + len(self._data):
            after = max(end, min(start + self.ahead, self._end))
            self._data = self._ranges.read(self._path, (start, after), self._size, start, after)
            self._first = start
        return self._data[start - self._first : end - self._first]
