"""Files whose records are runs of bytes: lines, JSON arrays, CSV. Finds them segment by segment, and parses them.

A segment is some megabytes of a file: the first has one, the next twice as many as the one before, up to 16. So the
first records of a large file are found soon, and the rest in few pieces. Segments follow from the file alone.
"""

import csv
import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from penstock.plan.draws import Ints
from penstock.readers.errors import ContentError
from penstock.readers.records.content import BadRecord, Content
from penstock.readers.records.spans import (
    Bytes,
    Carry,
    Spans,
    array_start,
    csv_spans,
    element_end,
    element_spans,
    line_spans,
    row_end,
)

_FIRST_BYTES = 1 << 20
_DOUBLINGS = 4
_LONG_BYTES = 32 << 20  # the end of a record that is longer is looked for without keeping it in memory
_NEWLINE = ord("\n")
_BOM = b"\xef\xbb\xbf"


class Found(NamedTuple):
    """The records of a segment.

    Attributes:
        starts: the first byte of each record in the content of the file.
        ends: the byte after the last of each.
        mark: where the next segment begins, for layouts that can't be entered elsewhere; None after the last segment.
    """

    starts: Ints
    ends: Ints
    mark: int | None


class Layout(Protocol):
    """How records lie in a file.

    Attributes:
        name: with the version of what it finds.
    """

    name: str

    def find(self, content: Content, number: int, mark: int) -> Found:
        """Find the records of a segment.

        Args:
            content: of the file.
            number: of the segment.
            mark: what the segment before returned; 0 for the first.
        """
        ...

    def count(self, content: Content) -> int | None:
        """Return the number of segments if they can be found in any order, else None."""
        ...

    def parse(self, content: Content, data: bytes) -> dict[str, Any]:
        """Return a record.

        Raises:
            BadRecord: If it can't be parsed.
        """
        ...


def bound(number: int) -> int:
    """Return the byte at which a segment begins, where segments begin at fixed bytes."""
    doubled = min(number, _DOUBLINGS)
    return (((1 << doubled) - 1) + (number - doubled) * (1 << _DOUBLINGS)) * _FIRST_BYTES


class Lines:
    """JSON lines. A line belongs to the segment in which it begins: segments can be found in any order."""

    name = "lines-1"

    def find(self, content: Content, number: int, mark: int) -> Found:  # noqa: ARG002
        low = bound(number)
        end = content.upto(bound(number + 1) + 1)
        high = min(bound(number + 1), end)
        following = number + 1 if high < end else None
        if low >= end:
            return Found(_NONE, _NONE, None)
        first = max(0, low - 1)  # whether a line begins at the first byte is seen from the one before
        window = content.read(first, high)
        if number:
            start = _first_newline(window) + 1
            if not 0 < start < len(window):  # one line goes on through the segment
                return Found(_NONE, _NONE, following)
        else:
            start = len(_BOM) if window[: len(_BOM)].tobytes() == _BOM else 0
        spans = line_spans(window[start:], last=following is None)
        starts = spans.starts + (first + start)
        ends = spans.ends + (first + start)
        tail = first + start + spans.used
        if tail < high:  # the last line goes on in the next segment
            end = _line_end(content, tail, high)
            if not _is_blank(content, tail, end):
                starts = np.append(starts, tail)
                ends = np.append(ends, end)
        return Found(starts, ends, following)

    def count(self, content: Content) -> int | None:
        size = content.size
        number = 1
        while bound(number) < size:
            number += 1
        return number

    def parse(self, content: Content, data: bytes) -> dict[str, Any]:  # noqa: ARG002
        return parse_json(data)


def _first_newline(window: Bytes) -> int:
    """Return where the first line end of a window is; -1 if there is none."""
    for at in range(0, len(window), _FIRST_BYTES):
        found = np.flatnonzero(window[at : at + _FIRST_BYTES] == _NEWLINE)
        if len(found):
            return at + int(found[0])
    return -1


def _line_end(content: Content, start: int, at: int) -> int:
    """Return where the line ends that begins at ``start`` and goes on at ``at``."""
    last = content.read(at - 1, at).tobytes() if at > start else b""
    while (after := content.upto(at + _FIRST_BYTES)) > at:
        window = content.read(at, after)
        newline = _first_newline(window)
        if newline >= 0:
            return at + newline - ((window[:newline].tobytes()[-1:] or last) == b"\r")
        last = window[-1:].tobytes()
        at = after
    return at


def _is_blank(content: Content, start: int, end: int) -> bool:
    """Return whether a line has nothing but spaces. A line of a megabyte or more counts as filled."""
    return end - start < _FIRST_BYTES and not content.read(start, end).tobytes().strip()


class _InOrder(ABC):
    """A layout whose segments have to be found one after another."""

    def find(self, content: Content, number: int, mark: int) -> Found:
        start = mark if number else self.start(content)
        span = bound(number + 1) - bound(number)
        while (end := content.upto(start + span + 1)) > start:
            window = content.read(start, min(start + span, end))
            spans = self.spans(window, last=start + len(window) == end)
            after = start + spans.used
            if spans.used or spans.ended:
                return Found(spans.starts + start, spans.ends + start, None if spans.ended or after == end else after)
            if span > _LONG_BYTES:
                after = self.end(content, start)
                more = content.upto(after + 2) > after + 1
                return Found(np.array([start]), np.array([after]), after + 1 if more else None)
            span *= 2
        return Found(_NONE, _NONE, None)

    @abstractmethod
    def spans(self, window: Bytes, *, last: bool) -> Spans:
        """Return the records that lie in a window."""

    @abstractmethod
    def end(self, content: Content, start: int) -> int:
        """Return where the record ends that begins at a byte, or the file."""

    @abstractmethod
    def start(self, content: Content) -> int:
        """Return where the first record begins."""

    def count(self, content: Content) -> int | None:  # noqa: ARG002
        """Return None: where a segment begins is known from the one before."""
        return None


def _windows(content: Content, start: int) -> Iterator[tuple[int, Bytes]]:
    """Yield the content from a byte on, in windows."""
    at = start
    while (end := content.upto(at + _LONG_BYTES)) > at:
        yield at, content.read(at, end)
        at = end


class Array(_InOrder):
    """A JSON array. Each element is a record."""

    name = "array-1"

    def spans(self, window: Bytes, *, last: bool) -> Spans:
        return element_spans(window, last=last)

    def end(self, content: Content, start: int) -> int:
        carry = Carry()
        for at, window in _windows(content, start):
            found, carry = element_end(window, carry)
            if found is not None:
                return at + found
        return content.size

    def start(self, content: Content) -> int:
        window = content.read(0, content.upto(_FIRST_BYTES))
        skipped = len(_BOM) if window[: len(_BOM)].tobytes() == _BOM else 0
        start = array_start(window[skipped:])
        if start is None:
            raise ContentError(content.path, None, "is no JSON array")
        return skipped + start

    def parse(self, content: Content, data: bytes) -> dict[str, Any]:  # noqa: ARG002
        return parse_json(data)


class Csv(_InOrder):
    """Rows of CSV or TSV. The first row names the columns."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter
        self.name = f"csv-1-{ord(delimiter)}"
        self._columns = lru_cache(64)(self._read_columns)

    def __reduce__(self) -> tuple[Any, ...]:
        return Csv, (self._delimiter,)

    def spans(self, window: Bytes, *, last: bool) -> Spans:
        return csv_spans(window, last=last, delimiter=self._delimiter)

    def end(self, content: Content, start: int) -> int:
        inside = False
        for at, window in _windows(content, start):
            found, inside = row_end(window, inside)
            if found is not None:
                return at + found
        return content.size

    def start(self, content: Content) -> int:
        return self._columns(content)[1]

    def parse(self, content: Content, data: bytes) -> dict[str, Any]:
        columns, _ = self._columns(content)
        values = self._values(data)
        if len(values) != len(columns):
            raise BadRecord("a row of CSV with another number of columns")
        return dict(zip(columns, values, strict=True))

    def _values(self, data: bytes) -> list[str]:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise BadRecord("not UTF-8") from None
        if len(text) > csv.field_size_limit():  # which is a setting of the whole process: let it be
            return [_unquoted(found[1]) for found in _long_field(self._delimiter).finditer(text + self._delimiter)]
        is_odd = text.count('"') % 2 == 1
        try:
            return next(csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter, strict=is_odd), [])
        except csv.Error as error:
            if not is_odd or "end of data" in str(error):
                raise BadRecord("a quote that is not closed" if is_odd else "not CSV") from None
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter), [])  # a quote within a field

    def _read_columns(self, content: Content) -> tuple[list[str], int]:
        """Return the names of the columns, and where the first row begins."""
        span = _FIRST_BYTES
        while True:
            end = content.upto(span + 1)
            window = content.read(0, min(span, end))
            spans = self.spans(window, last=len(window) == end)
            if len(spans.starts):
                break
            if len(window) == end or span > _LONG_BYTES:
                raise ContentError(content.path, None, "has no row with the names of its columns")
            span *= 2
        try:
            header = window[spans.starts[0] : spans.ends[0]].tobytes().removeprefix(_BOM)
            columns = self._values(header)
        except BadRecord as error:
            raise ContentError(content.path, None, f"its first row is {error}") from None
        twice = next((name for name in columns if name and columns.count(name) > 1), "")
        if twice:
            raise ContentError(content.path, None, f"its first row names the column {twice!r} twice; rename one")
        following = np.flatnonzero(window[spans.ends[0] :] == _NEWLINE)
        return columns, int(spans.ends[0]) + (int(following[0]) + 1 if len(following) else 0)


@cache
def _long_field(delimiter: str) -> re.Pattern[str]:
    """Return the pattern of a field of CSV, and of what ends it."""
    return re.compile(rf'("[^"]*+(?:""[^"]*+)*+"[^{delimiter}]*+|[^{delimiter}]*+){delimiter}')


def _unquoted(field: str) -> str:
    if not field.startswith('"'):
        return field
    quoted, _, rest = field[1:].rpartition('"')
    return quoted.replace('""', '"') + rest


def parse_json(data: bytes) -> dict[str, Any]:
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


_NONE = np.zeros(0, np.int64)
