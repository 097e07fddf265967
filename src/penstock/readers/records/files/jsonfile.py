"""Files of JSON: one record per line, or an array of records. Finds records without parsing them."""

import json
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.plan.draws import Ints
from penstock.readers.errors import ContentError
from penstock.readers.records.files.filebytes import FileBytes
from penstock.readers.records.files.recordfile import BadRecord, Columns, FileSegment
from penstock.readers.records.files.textfile import (
    BYTE_ORDER_MARK,
    FIRST_BYTES,
    NEWLINE,
    Bytes,
    RecordSpans,
    TextFile,
    WindowedFile,
    between,
    bound,
    character_table,
    no_records,
    segment_of,
    windows,
)

_QUOTE = ord('"')
_BACKSLASH = ord("\\")
_COMMA = ord(",")
_BRACKET = ord("[")
_SPACES = character_table(b" \t\r\n")
_OPENING = character_table(b"{[")
_CLOSING = character_table(b"}]")
_STRUCTURE = character_table(b"{[}],")


class JsonLines(TextFile):
    """JSON lines. A line belongs to the segment in which it begins: segments can be found in any order."""

    layout = "lines-1"

    def segment(self, number: int, mark: int) -> FileSegment:  # noqa: ARG002
        low = bound(number)
        end = self.content.upto(bound(number + 1) + 1)
        high = min(bound(number + 1), end)
        following = number + 1 if high < end else None
        if low >= end:
            return no_records(None)
        first = max(0, low - 1)  # whether a line begins at the first byte is seen from the one before
        window = self.content.read(first, high)
        if number:
            start = _first_newline(window) + 1
            if not 0 < start < len(window):  # one line goes on through the segment
                return no_records(following)
        else:
            start = len(BYTE_ORDER_MARK) if window[: len(BYTE_ORDER_MARK)].tobytes() == BYTE_ORDER_MARK else 0
        spans = line_spans(window[start:], last=following is None)
        starts = spans.starts + (first + start)
        ends = spans.ends + (first + start)
        tail = first + start + spans.used
        if tail < high:  # the last line goes on in the next segment
            end = _line_end(self.content, tail, high)
            if not _is_blank(self.content, tail, end):
                starts = np.append(starts, tail)
                ends = np.append(ends, end)
        return segment_of(starts, ends, following)

    def count(self) -> int | None:
        size = self.content.size()
        number = 1
        while bound(number) < size:
            number += 1
        return number

    def parse(self, data: bytes) -> Columns:
        return parse_json(data)


def _first_newline(window: Bytes) -> int:
    """Return the position of the first line end in a window; -1 if there is none."""
    for at in range(0, len(window), FIRST_BYTES):
        found = np.flatnonzero(window[at : at + FIRST_BYTES] == NEWLINE)
        if len(found):
            return at + int(found[0])
    return -1


def _line_end(content: FileBytes, start: int, at: int) -> int:
    """Return the end of the line that begins at ``start`` and continues at ``at``."""
    last = content.read(at - 1, at).tobytes() if at > start else b""
    while (after := content.upto(at + FIRST_BYTES)) > at:
        window = content.read(at, after)
        newline = _first_newline(window)
        if newline >= 0:
            return at + newline - ((window[:newline].tobytes()[-1:] or last) == b"\r")
        last = window[-1:].tobytes()
        at = after
    return at


def _is_blank(content: FileBytes, start: int, end: int) -> bool:
    """Return whether a line is all whitespace. A line of a megabyte or more is not looked at, and counts as filled."""
    return end - start < FIRST_BYTES and not content.read(start, end).tobytes().strip()


class JsonArray(WindowedFile):
    """A JSON array. Each element is a record."""

    layout = "array-1"

    def find(self, window: Bytes, *, last: bool) -> RecordSpans:
        return element_spans(window, last=last)

    def end_of(self, start: int) -> int:
        carry = Carry()
        for at, window in windows(self.content, start):
            found, carry = element_end(window, carry)
            if found is not None:
                return at + found
        return self.content.size()

    def first(self) -> int:
        window = self.content.read(0, self.content.upto(FIRST_BYTES))
        skipped = len(BYTE_ORDER_MARK) if window[: len(BYTE_ORDER_MARK)].tobytes() == BYTE_ORDER_MARK else 0
        start = array_start(window[skipped:])
        if start is None:
            raise ContentError(self.path, None, "is no JSON array")
        return skipped + start

    def parse(self, data: bytes) -> Columns:
        return parse_json(data)


def parse_json(data: bytes) -> Columns:
    """Return a JSON object.

    Raises:
        BadRecord: If it is none.
    """
    try:
        # Of bytes, the json module would also guess UTF-16. A mark stands where files with marks were joined.
        record = json.loads(data.decode().removeprefix("\ufeff"))
    except UnicodeDecodeError:
        raise BadRecord("not UTF-8") from None
    except (ValueError, RecursionError):
        raise BadRecord("not JSON") from None
    if not isinstance(record, dict):
        raise BadRecord("not a JSON object")
    return record


def line_spans(window: Bytes, *, last: bool) -> RecordSpans:
    """Return the lines of a window that are not blank, without their line ends.

    Args:
        window: Bytes of the file, from the beginning of a line on.
        last: Whether the file ends with the window. If not, what follows the last line end is left for the next.
    """
    found = between(window, np.flatnonzero(window == NEWLINE), last)
    if not len(found.starts):
        return found
    filled = ~_SPACES[window[found.starts]]
    if not filled.all():  # some lines begin with a space
        content = np.flatnonzero(~_SPACES[window])
        filled = np.searchsorted(content, found.starts) < np.searchsorted(content, found.ends)
    return found._replace(starts=found.starts[filled], ends=found.ends[filled])


def array_start(window: Bytes) -> int | None:
    """Return the byte after the opening bracket of a JSON array; None if there is none."""
    content = np.flatnonzero(~_SPACES[window])
    if not len(content) or window[content[0]] != _BRACKET:
        return None
    return int(content[0]) + 1


def element_spans(window: Bytes, *, last: bool) -> RecordSpans:
    """Return the elements of a JSON array that lie in a window.

    Args:
        window: Bytes of the array, from after its bracket or a comma between two elements on.
        last: Whether the file ends with the window.
    """
    marks = _structure(window, _quotes(window))
    kinds = window[marks]
    steps = _OPENING[kinds].astype(np.int64) - _CLOSING[kinds]
    depth = np.cumsum(steps)
    closing = np.flatnonzero(depth < 0)
    ended = bool(len(closing))
    if ended:  # the bracket that ends the array
        marks = marks[: closing[0] + 1]
        kinds = kinds[: closing[0] + 1]
        depth = depth[: closing[0] + 1]
    breaks = marks[((kinds == _COMMA) & (depth == 0)) | (depth < 0)]
    if last and not ended:  # the array is truncated: what is left is an element that can't be parsed
        breaks = np.append(breaks, len(window))
    starts = np.concatenate([[0], breaks[:-1] + 1]) if len(breaks) else breaks
    used = int(breaks[-1]) + 1 if len(breaks) else 0
    trimmed = [_trimmed(window, start, end) for start, end in zip(starts.tolist(), breaks.tolist(), strict=True)]
    spans = np.array([span for span in trimmed if span[1] > span[0]], dtype=np.int64).reshape(-1, 2)
    return RecordSpans(spans[:, 0], spans[:, 1], min(used, len(window)), ended or last)


class Carry(NamedTuple):
    """State of the scan of a JSON array's element at the end of a window.

    Attributes:
        depth: Number of open brackets and braces.
        inside: Whether the window ends in a string.
        escaped: Whether a backslash precedes the next byte.
    """

    depth: int = 0
    inside: bool = False
    escaped: bool = False


def element_end(window: Bytes, carry: Carry) -> tuple[int | None, Carry]:
    """Look for the end of an element of a JSON array that began before the window.

    Args:
        window: Bytes of the element.
        carry: State at the beginning of the window.

    Returns:
        Where the comma or bracket is that ends the element, or None; and what is known at the end of the window.
    """
    before = (b'"' if carry.inside else b"") + (b"\\" if carry.escaped else b"")
    padded = np.concatenate([np.frombuffer(before, np.uint8), window])
    quotes = _quotes(padded)
    marks = _structure(padded, quotes)
    kinds = padded[marks]
    depth = carry.depth + np.cumsum(_OPENING[kinds].astype(np.int64) - _CLOSING[kinds])
    ends = marks[((kinds == _COMMA) & (depth == 0)) | (depth < 0)]
    escaped = bool(_are_escaped(padded, np.array([len(padded)]))[0])
    after = Carry(int(depth[-1]) if len(depth) else carry.depth, len(quotes) % 2 == 1, escaped)
    return (int(ends[0]) - len(before) if len(ends) else None), after


def _quotes(window: Bytes) -> Ints:
    """Return the positions of the quotes that open or close a string."""
    quotes = np.flatnonzero(window == _QUOTE)
    return quotes[~_are_escaped(window, quotes)]


def _structure(window: Bytes, quotes: Ints) -> Ints:
    """Return the positions of brackets, braces and commas outside of strings."""
    marks = np.flatnonzero(_STRUCTURE[window])
    outside: Ints = marks[np.searchsorted(quotes, marks) % 2 == 0]
    return outside


def _are_escaped(window: Bytes, at: Ints) -> NDArray[np.bool_]:
    """Return for each position whether an odd number of backslashes precedes it."""
    slashes = np.flatnonzero(window == _BACKSLASH)
    if not len(slashes):
        return np.zeros(len(at), dtype=bool)
    begins = np.append(True, np.diff(slashes) > 1)
    firsts = np.maximum.accumulate(np.where(begins, slashes, 0))  # of each backslash, the first of its run
    nearest = np.searchsorted(slashes, at) - 1
    adjacent = (nearest >= 0) & (slashes[nearest] == at - 1)
    escaped: NDArray[np.bool_] = adjacent & ((at - firsts[nearest]) % 2 == 1)
    return escaped


def _trimmed(window: Bytes, start: int, end: int) -> tuple[int, int]:
    """Return a range without leading and trailing whitespace."""
    while start < end and _SPACES[window[start]]:
        start += 1
    while end > start and _SPACES[window[end - 1]]:
        end -= 1
    return start, end
