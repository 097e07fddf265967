"""Files whose records are runs of bytes, such as lines: what the formats share. Parses nothing.

A segment is some megabytes of a file: the first has one, the next twice as many as the one before, up to 16. So the
first records of a large file are found soon, and the rest in few pieces. Segments follow from the file alone.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.plan.draws import Ints
from penstock.readers.errors import ContentError
from penstock.readers.records.files.filebytes import STRIDE_BYTES, FileBytes
from penstock.readers.records.files.recordfile import (
    RECORD_BYTES,
    TOO_LONG,
    BadRecord,
    Columns,
    FileSegment,
    Place,
    RecordFile,
    Weight,
)
from penstock.store.extents import Extent

Bytes = NDArray[np.uint8]

FIRST_BYTES = 1 << 20  # of the first segment
LONG_BYTES = 32 << 20  # the end of a longer record is looked for without keeping it in memory
NEWLINE = ord("\n")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DOUBLINGS = 4  # of segments
_READ_BYTES = 16 << 20  # at a time, of several records
_RETURN = ord("\r")


class RecordSpans(NamedTuple):
    """Records in a window, as byte ranges in it.

    Attributes:
        starts: First byte of each record.
        ends: Byte after the last of each record.
        used: Number of bytes that need no second look: the next window begins after them.
        ended: Whether no more records follow, whatever the rest of the file is.
    """

    starts: Ints
    ends: Ints
    used: int
    ended: bool = False


class TextFile(RecordFile):
    """A file whose records are runs of bytes. A place is the first byte of a record, and the byte after its last.

    A subclass writes ``segment`` and ``parse``; where segments have to be found in order, see ``WindowedFile``.

    Args:
        content: Content of the file.
    """

    def __init__(self, content: FileBytes) -> None:
        self.path = content.path
        self.content = content

    @abstractmethod
    def parse(self, data: bytes) -> Columns:
        """Return the record that some bytes hold.

        Raises:
            BadRecord: If they can't be parsed.
        """

    def records(self, places: Ints, leave_out: Sequence[str]) -> Iterator[Columns | BadRecord]:  # noqa: ARG002
        for run in _runs(places):
            first = int(run[0, 0])
            if run[0, 1] - first > RECORD_BYTES:  # such a run has no other
                yield BadRecord(TOO_LONG)
                continue
            data = self.content.read(first, int(run[-1, 1]))
            for start, end in (run - first).tolist():
                try:
                    yield self.parse(data[start:end].tobytes())
                except BadRecord as error:
                    yield error

    def load(self, place: Place) -> Columns:
        start, end = place
        if end - start > RECORD_BYTES:
            raise BadRecord(TOO_LONG)
        return self.parse(self.content.read(start, end).tobytes())

    def extents(self, places: Ints) -> Sequence[Extent]:
        return self.content.extents(int(places[0, 0]), int(places[-1, 1]))

    def weight(self) -> Weight:
        return Weight(self.content.cached_size(), STRIDE_BYTES)


def _runs(places: Ints) -> Iterator[Ints]:
    """Split places into runs to read at once: of some megabytes, or of one longer record."""
    at = 0
    while at < len(places):
        after = int(np.searchsorted(places[:, 1], places[at, 0] + _READ_BYTES, side="right"))
        after = max(after, at + 1)
        yield places[at:after]
        at = after


def bound(number: int) -> int:
    """Return the first byte of a segment, for files whose segments begin at fixed bytes."""
    doubled = min(number, _DOUBLINGS)
    return (((1 << doubled) - 1) + (number - doubled) * (1 << _DOUBLINGS)) * FIRST_BYTES


class WindowedFile(TextFile):
    """A file whose segments have to be found in order, each in a window of the file.

    A subclass writes ``find`` and ``parse``, and ``first`` where records do not begin with the file.
    """

    def segment(self, number: int, mark: int) -> FileSegment:
        start = mark if number else self.first()
        span = bound(number + 1) - bound(number)
        while (end := self.content.upto(start + span + 1)) > start:
            window = self.content.read(start, min(start + span, end))
            found = self.find(window, last=start + len(window) == end)
            after = start + found.used
            if found.used or found.ended:
                following = None if found.ended or after == end else after
                return segment_of(found.starts + start, found.ends + start, following)
            if span > LONG_BYTES:
                after = self.end_of(start)
                more = self.content.upto(after + 2) > after + 1
                return segment_of(np.array([start]), np.array([after]), after + 1 if more else None)
            span *= 2
        return no_records(None)

    @abstractmethod
    def find(self, window: Bytes, *, last: bool) -> RecordSpans:
        """Return the records that lie completely in a window.

        Args:
            window: Bytes of the file, from the end of the previous window's last record on.
            last: Whether the file ends with the window.
        """

    def first(self) -> int:
        """Return the byte at which the first record begins."""
        return 0

    def end_of(self, start: int) -> int:
        """Return the end of a record that is longer than any window.

        Args:
            start: First byte of the record.
        """
        raise ContentError(self.path, None, f"has a record of more than {LONG_BYTES >> 20} MiB at byte {start:,}")


def segment_of(starts: Ints, ends: Ints, mark: int | None) -> FileSegment:
    return FileSegment(np.stack([starts, ends], axis=1), mark)


def no_records(mark: int | None) -> FileSegment:
    return FileSegment(np.zeros((0, 2), np.int64), mark)


def windows(content: FileBytes, start: int) -> Iterator[tuple[int, Bytes]]:
    """Yield the content from a byte on, in windows."""
    at = start
    while (end := content.upto(at + LONG_BYTES)) > at:
        yield at, content.read(at, end)
        at = end


def character_table(characters: bytes) -> NDArray[np.bool_]:
    """Return a table of which bytes are among some characters: indexing it is faster than comparing."""
    return np.isin(np.arange(256), list(characters))


def between(window: Bytes, breaks: Ints, last: bool) -> RecordSpans:
    """Return the spans between line ends that are not empty."""
    used = len(window) if last else (int(breaks[-1]) + 1 if len(breaks) else 0)
    if last and used and (not len(breaks) or breaks[-1] != used - 1):
        breaks = np.append(breaks, used)
    starts = np.concatenate([[0], breaks[:-1] + 1]) if len(breaks) else breaks
    filled = breaks > starts  # first: a file may consist of line ends
    starts = starts[filled]
    breaks = breaks[filled]
    ends = breaks - (window[breaks - 1] == _RETURN)
    filled = ends > starts
    return RecordSpans(starts[filled].astype(np.int64), ends[filled].astype(np.int64), used)
