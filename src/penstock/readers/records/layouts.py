"""Files whose records are runs of bytes: lines, JSON arrays, CSV. Finds them segment by segment, and parses them.

A segment is some megabytes of a file: the first has one, the next twice as many as the one before, up to 64. So the
first records of a large file are found soon, and the rest in few pieces. Segments follow from the file alone.
"""

import csv
import io
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from penstock.plan.draws import Ints
from penstock.readers.errors import ContentError
from penstock.readers.records.content import MOST_BYTES, BadRecord, Content
from penstock.readers.records.spans import Spans, array_start, csv_spans, element_spans, line_spans

_FIRST_BYTES = 1 << 20
_DOUBLINGS = 6
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
        size = content.size
        low = bound(number)
        high = min(bound(number + 1), size)
        following = number + 1 if high < size else None
        if low >= size:
            return Found(_NONE, _NONE, None)
        first = max(0, low - 1)  # whether a line begins at the first byte is seen from the one before
        window = content.read(first, high)
        start = 0
        if number:
            breaks = np.flatnonzero(window == _NEWLINE)
            if not len(breaks) or breaks[0] + 1 >= len(window):  # one line goes on through the segment
                return Found(_NONE, _NONE, following)
            start = int(breaks[0]) + 1
        elif window[: len(_BOM)].tobytes() == _BOM:
            start = len(_BOM)
        parts = [window[start:]]
        at = high
        while at < size and parts[-1][-1:].tobytes() != b"\n":  # the last line goes on in the next segment
            more = content.read(at, min(at + _FIRST_BYTES, size))
            breaks = np.flatnonzero(more == _NEWLINE)
            parts.append(more[: breaks[0] + 1] if len(breaks) else more)
            at += len(parts[-1])
        spans = line_spans(np.concatenate(parts), last=True)
        return Found(spans.starts + first + start, spans.ends + first + start, following)

    def count(self, content: Content) -> int | None:
        size = content.size
        number = 1
        while bound(number) < size:
            number += 1
        return number

    def parse(self, content: Content, data: bytes) -> dict[str, Any]:  # noqa: ARG002
        return parse_json(data)


class _InOrder:
    """A layout whose segments have to be found one after another."""

    def __init__(self, spans: Callable[..., Spans]) -> None:
        self._spans = spans

    def find(self, content: Content, number: int, mark: int) -> Found:
        size = content.size
        start = mark if number else self.start(content)
        span = bound(number + 1) - bound(number)
        while start < size:
            window = content.read(start, min(start + span, size))
            last = start + len(window) >= size
            spans = self._spans(window, last=last)
            if spans.used or spans.ended:
                following = None if spans.ended or start + spans.used >= size else start + spans.used
                return Found(spans.starts + start, spans.ends + start, following)
            if span > MOST_BYTES:  # the rest of the file is one record that is too long
                return Found(np.array([start]), np.array([size]), None)
            span *= 2
        return Found(_NONE, _NONE, None)

    def start(self, content: Content) -> int:
        """Return where the first record begins."""
        raise NotImplementedError

    def count(self, content: Content) -> None:
        """Return None: where a segment begins is known from the one before."""


class Array(_InOrder):
    """A JSON array. Each element is a record."""

    name = "array-1"

    def __init__(self) -> None:
        super().__init__(element_spans)

    def start(self, content: Content) -> int:
        window = content.read(0, min(content.size, _FIRST_BYTES))
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
        super().__init__(csv_spans)
        self._delimiter = delimiter
        self.name = f"csv-1-{ord(delimiter)}"
        self._columns = lru_cache(64)(self._read_columns)

    def __reduce__(self) -> tuple[Any, ...]:
        return Csv, (self._delimiter,)

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
            return next(csv.reader(io.StringIO(data.decode(), newline=""), delimiter=self._delimiter), [])
        except UnicodeDecodeError:
            raise BadRecord("not UTF-8") from None
        except csv.Error:
            raise BadRecord("not CSV") from None

    def _read_columns(self, content: Content) -> tuple[list[str], int]:
        """Return the names of the columns, and where the first row begins."""
        size = content.size
        span = _FIRST_BYTES
        while True:
            window = content.read(0, min(span, size))
            spans = csv_spans(window, last=len(window) >= size)
            if len(spans.starts):
                break
            if len(window) >= size or span > MOST_BYTES:
                raise ContentError(content.path, None, "has no row with the names of its columns")
            span *= 2
        try:
            header = window[spans.starts[0] : spans.ends[0]].tobytes().removeprefix(_BOM)
            columns = self._values(header)
        except BadRecord as error:
            raise ContentError(content.path, None, f"its first row is {error}") from None
        following = np.flatnonzero(window[spans.ends[0] :] == _NEWLINE)
        return columns, int(spans.ends[0]) + (int(following[0]) + 1 if len(following) else 0)


def parse_json(data: bytes) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        BadRecord: If it is none.
    """
    try:
        record = json.loads(data)
    except UnicodeDecodeError:
        raise BadRecord("not UTF-8") from None
    except (ValueError, RecursionError):
        raise BadRecord("not JSON") from None
    if not isinstance(record, dict):
        raise BadRecord("not a JSON object")
    return record


_NONE = np.zeros(0, np.int64)
