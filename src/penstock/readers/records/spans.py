"""Where records lie in a run of bytes: lines, elements of a JSON array, rows of CSV. Pure; parses no record.

Each function looks at a window of a file and returns the records that lie in it completely.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.plan.draws import Ints

Bytes = NDArray[np.uint8]

_NEWLINE = ord("\n")
_RETURN = ord("\r")
_QUOTE = ord('"')
_BACKSLASH = ord("\\")
_COMMA = ord(",")
_BRACKET = ord("[")


def _table(characters: bytes) -> NDArray[np.bool_]:
    """Return for each byte whether it is one of some characters: looking it up is faster than comparing."""
    return np.isin(np.arange(256), list(characters))


_SPACES = _table(b" \t\r\n")
_OPENING = _table(b"{[")
_CLOSING = _table(b"}]")
_STRUCTURE = _table(b"{[}],")


class Spans(NamedTuple):
    """Records in a window, as byte ranges in it.

    Attributes:
        starts: the first byte of each.
        ends: the byte after the last of each.
        used: bytes of the window that were looked at completely: the next window begins there.
        ended: whether the records end here, whatever follows.
    """

    starts: Ints
    ends: Ints
    used: int
    ended: bool = False


def line_spans(window: Bytes, *, last: bool) -> Spans:
    """Return the lines of a window that have any content, without their line ends.

    Args:
        window: bytes from the beginning of a line on.
        last: whether the file ends with the window. If not, what follows the last line end is left for the next.
    """
    ends = np.flatnonzero(window == _NEWLINE)
    return _between(window, ends, last)


def csv_spans(window: Bytes, *, last: bool) -> Spans:
    """Return the rows of a window: lines, but a line end between quotes belongs to its row."""
    newlines = np.flatnonzero(window == _NEWLINE)
    quotes = np.flatnonzero(window == _QUOTE)
    outside = np.searchsorted(quotes, newlines) % 2 == 0  # a doubled quote opens and closes again
    return _between(window, newlines[outside], last)


def _between(window: Bytes, breaks: Ints, last: bool) -> Spans:
    used = len(window) if last else (int(breaks[-1]) + 1 if len(breaks) else 0)
    if last and used and (not len(breaks) or breaks[-1] != used - 1):
        breaks = np.append(breaks, used)
    starts = np.concatenate([[0], breaks[:-1] + 1]) if len(breaks) else breaks
    ends = breaks - ((breaks > starts) & (window[np.maximum(breaks - 1, 0)] == _RETURN))
    filled = ends > starts
    blank = np.flatnonzero(filled & _SPACES[window[np.minimum(starts, max(0, len(window) - 1))]])
    for line in blank.tolist():  # begins with a space: rare
        filled[line] = not _SPACES[window[starts[line] : ends[line]]].all()
    return Spans(starts[filled].astype(np.int64), ends[filled].astype(np.int64), used)


def array_start(window: Bytes) -> int | None:
    """Return the byte after the bracket with which a JSON array begins, or None if this is no array."""
    content = np.flatnonzero(~_SPACES[window])
    if not len(content) or window[content[0]] != _BRACKET:
        return None
    return int(content[0]) + 1


def element_spans(window: Bytes, *, last: bool) -> Spans:
    """Return the elements of a JSON array that lie in a window.

    Args:
        window: bytes of the array from after its bracket, or after a comma between two elements, on.
        last: whether the file ends with the window.
    """
    marks = _structure(window)
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
    return Spans(spans[:, 0], spans[:, 1], min(used, len(window)), ended or last)


def _structure(window: Bytes) -> Ints:
    """Return where brackets, braces and commas stand that are not in a string."""
    quotes = np.flatnonzero(window == _QUOTE)
    quotes = quotes[~_are_escaped(window, quotes)]
    marks = np.flatnonzero(_STRUCTURE[window])
    outside: Ints = marks[np.searchsorted(quotes, marks) % 2 == 0]
    return outside


def _are_escaped(window: Bytes, at: Ints) -> NDArray[np.bool_]:
    """Return whether an odd number of backslashes stands before each of some bytes."""
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
    """Return a range without the spaces around its content."""
    while start < end and _SPACES[window[start]]:
        start += 1
    while end > start and _SPACES[window[end - 1]]:
        end -= 1
    return start, end
