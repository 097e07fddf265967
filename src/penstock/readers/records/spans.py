"""Where records lie in a run of bytes: lines, elements of a JSON array, rows of CSV. Pure; parses no record.

Each function looks at a window of a file and returns the records that lie in it completely. Of a record that is longer
than any window, ``element_end`` and ``row_end`` find the end.
"""

import re
from functools import cache
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
    found = _between(window, np.flatnonzero(window == _NEWLINE), last)
    if not len(found.starts):
        return found
    filled = ~_SPACES[window[found.starts]]
    if not filled.all():  # some lines begin with a space
        content = np.flatnonzero(~_SPACES[window])
        filled = np.searchsorted(content, found.starts) < np.searchsorted(content, found.ends)
    return found._replace(starts=found.starts[filled], ends=found.ends[filled])


def csv_spans(window: Bytes, *, last: bool, delimiter: str = ",") -> Spans:
    """Return the rows of a window as the ``csv`` module sees them: a line end between quotes belongs to its row.

    Args:
        window: bytes from the beginning of a row on.
        last: whether the file ends with the window.
        delimiter: between fields.
    """
    newlines = np.flatnonzero(window == _NEWLINE)
    quotes = np.flatnonzero(window == _QUOTE)
    if not len(quotes):
        return _between(window, newlines, last)
    if _are_in_pairs(window, quotes, delimiter):
        outside = np.searchsorted(quotes, newlines) % 2 == 0  # a doubled quote opens and closes again
        return _between(window, newlines[outside], last)
    return _between(window, _row_ends(window, delimiter), last)


def _are_in_pairs(window: Bytes, quotes: Ints, delimiter: str) -> bool:
    """Return whether each first quote opens a field, and each second one closes it."""
    opening = quotes[::2]
    closing = quotes[1::2]
    around = b'"\n' + delimiter.encode()  # a quote beside one closes or opens, too: the two stand for a quote
    before = _table(around)[window[opening - 1]] | (opening == 0)
    after = _table(around + b"\r")[window[np.minimum(closing + 1, len(window) - 1)]] | (closing == len(window) - 1)
    return bool(before.all() and after.all())


@cache
def _field(delimiter: str) -> re.Pattern[bytes]:
    """Return the pattern of a field and what ends it. Nothing of a quoted field is given back, so that none is cut."""
    end = re.escape(delimiter).encode()
    rest = rb"[^" + end + rb"\n]*+"
    quoted = rb'"[^"]*+(?:""[^"]*+)*+"' + rest
    plain = rb'(?!")' + rest
    return re.compile(rb"(?:" + quoted + rb"|" + plain + rb")(\n|" + end + rb")")


def _row_ends(window: Bytes, delimiter: str) -> Ints:
    """Return the line ends that end rows, field by field: a quote within a field is a character like others."""
    data = window.tobytes()
    pattern = _field(delimiter)
    ends = []
    at = 0
    while (found := pattern.match(data, at)) is not None:
        at = found.end()
        if found[1] == b"\n":
            ends.append(at - 1)
    return np.array(ends, dtype=np.int64)


def row_end(window: Bytes, inside: bool) -> tuple[int | None, bool]:
    """Look for the end of a row of CSV that began before the window.

    Args:
        window: bytes of the row.
        inside: whether the window begins between quotes.

    Returns:
        Where the line end is that ends the row, or None; and whether the window ends between quotes.
    """
    newlines = np.flatnonzero(window == _NEWLINE)
    quotes = np.flatnonzero(window == _QUOTE)
    outside = newlines[(np.searchsorted(quotes, newlines) + inside) % 2 == 0]
    return (int(outside[0]) if len(outside) else None), (len(quotes) + inside) % 2 == 1


def _between(window: Bytes, breaks: Ints, last: bool) -> Spans:
    """Return what stands between line ends, without what is empty."""
    used = len(window) if last else (int(breaks[-1]) + 1 if len(breaks) else 0)
    if last and used and (not len(breaks) or breaks[-1] != used - 1):
        breaks = np.append(breaks, used)
    starts = np.concatenate([[0], breaks[:-1] + 1]) if len(breaks) else breaks
    filled = breaks > starts  # first: a file may consist of line ends
    starts = starts[filled]
    breaks = breaks[filled]
    ends = breaks - (window[breaks - 1] == _RETURN)
    filled = ends > starts
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
    return Spans(spans[:, 0], spans[:, 1], min(used, len(window)), ended or last)


class Carry(NamedTuple):
    """What is known of an element of a JSON array where a window of it ends.

    Attributes:
        depth: brackets and braces that are open.
        inside: whether it is in a string.
        escaped: whether a backslash stands before the next byte.
    """

    depth: int = 0
    inside: bool = False
    escaped: bool = False


def element_end(window: Bytes, carry: Carry) -> tuple[int | None, Carry]:
    """Look for the end of an element of a JSON array that began before the window.

    Args:
        window: bytes of the element.
        carry: what is known of the bytes before.

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
    """Return where quotes stand that open or close a string."""
    quotes = np.flatnonzero(window == _QUOTE)
    return quotes[~_are_escaped(window, quotes)]


def _structure(window: Bytes, quotes: Ints) -> Ints:
    """Return where brackets, braces and commas stand that are not in a string."""
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
