"""Files of CSV or TSV: each row is a record. Finds rows without parsing them."""

import csv
import io
import re
from functools import cache

import numpy as np

from penstock.plan.draws import Ints
from penstock.readers.errors import ContentError
from penstock.readers.records.files.filebytes import FileBytes
from penstock.readers.records.files.recordfile import BadRecord, Columns
from penstock.readers.records.files.textfile import (
    BYTE_ORDER_MARK,
    FIRST_BYTES,
    LONG_BYTES,
    NEWLINE,
    Bytes,
    RecordSpans,
    WindowedFile,
    between,
    character_table,
    windows,
)

_QUOTE = ord('"')


class CsvFile(WindowedFile):
    """Rows of CSV or TSV. The first row names the columns.

    Args:
        content: Content of the file.
        delimiter: Character between fields.
    """

    def __init__(self, content: FileBytes, delimiter: str) -> None:
        super().__init__(content)
        self._delimiter = delimiter
        self.layout = f"csv-1-{ord(delimiter)}"
        self._header: tuple[list[str], int] | None = None

    def find(self, window: Bytes, *, last: bool) -> RecordSpans:
        return csv_spans(window, last=last, delimiter=self._delimiter)

    def end_of(self, start: int) -> int:
        inside = False
        for at, window in windows(self.content, start):
            found, inside = row_end(window, inside)
            if found is not None:
                return at + found
        return self.content.size()

    def first(self) -> int:
        return self._columns()[1]

    def parse(self, data: bytes) -> Columns:
        columns, _ = self._columns()
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

    def _columns(self) -> tuple[list[str], int]:
        """Return the names of the columns, and where the first row begins. They are read once."""
        if self._header is None:
            self._header = self._read_header()
        return self._header

    def _read_header(self) -> tuple[list[str], int]:
        span = FIRST_BYTES
        while True:
            end = self.content.upto(span + 1)
            window = self.content.read(0, min(span, end))
            spans = self.find(window, last=len(window) == end)
            if len(spans.starts):
                break
            if len(window) == end or span > LONG_BYTES:
                raise ContentError(self.path, None, "has no row with the names of its columns")
            span *= 2
        try:
            header = window[spans.starts[0] : spans.ends[0]].tobytes().removeprefix(BYTE_ORDER_MARK)
            columns = self._values(header)
        except BadRecord as error:
            raise ContentError(self.path, None, f"its first row is {error}") from None
        twice = next((name for name in columns if name and columns.count(name) > 1), "")
        if twice:
            raise ContentError(self.path, None, f"its first row names the column {twice!r} twice; rename one")
        following = np.flatnonzero(window[spans.ends[0] :] == NEWLINE)
        return columns, int(spans.ends[0]) + (int(following[0]) + 1 if len(following) else 0)


@cache
def _long_field(delimiter: str) -> re.Pattern[str]:
    """Return the pattern of a field of CSV and its end."""
    return re.compile(rf'("[^"]*+(?:""[^"]*+)*+"[^{delimiter}]*+|[^{delimiter}]*+){delimiter}')


def _unquoted(field: str) -> str:
    if not field.startswith('"'):
        return field
    quoted, _, rest = field[1:].rpartition('"')
    return quoted.replace('""', '"') + rest


def csv_spans(window: Bytes, *, last: bool, delimiter: str = ",") -> RecordSpans:
    """Return the rows of a window as the ``csv`` module finds them: a line end between quotes does not end a row.

    Args:
        window: Bytes of the file, from the beginning of a row on.
        last: Whether the file ends with the window.
        delimiter: Character between fields.
    """
    newlines = np.flatnonzero(window == NEWLINE)
    quotes = np.flatnonzero(window == _QUOTE)
    if not len(quotes):
        return between(window, newlines, last)
    if _are_in_pairs(window, quotes, delimiter):
        outside = np.searchsorted(quotes, newlines) % 2 == 0  # a doubled quote opens and closes again
        return between(window, newlines[outside], last)
    return between(window, _row_ends(window, delimiter), last)


def _are_in_pairs(window: Bytes, quotes: Ints, delimiter: str) -> bool:
    """Return whether each first quote opens a field, and each second one closes it."""
    opening = quotes[::2]
    closing = quotes[1::2]
    around = b'"\n' + delimiter.encode()  # a quote beside one closes or opens, too: the two stand for a quote
    before = character_table(around)[window[opening - 1]] | (opening == 0)
    after = character_table(around + b"\r")[window[np.minimum(closing + 1, len(window) - 1)]] | (
        closing == len(window) - 1
    )
    return bool(before.all() and after.all())


@cache
def _field(delimiter: str) -> re.Pattern[bytes]:
    """Return the pattern of a field and its end. It is possessive, so that no quoted field is cut."""
    end = re.escape(delimiter).encode()
    rest = rb"[^" + end + rb"\n]*+"
    quoted = rb'"[^"]*+(?:""[^"]*+)*+"' + rest
    plain = rb'(?!")' + rest
    return re.compile(rb"(?:" + quoted + rb"|" + plain + rb")(\n|" + end + rb")")


def _row_ends(window: Bytes, delimiter: str) -> Ints:
    """Return the line ends that end rows, field by field. A quote inside an unquoted field is an ordinary character."""
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
        window: Bytes of the row.
        inside: Whether the window begins between quotes.

    Returns:
        Where the line end is that ends the row, or None; and whether the window ends between quotes.
    """
    newlines = np.flatnonzero(window == NEWLINE)
    quotes = np.flatnonzero(window == _QUOTE)
    outside = newlines[(np.searchsorted(quotes, newlines) + inside) % 2 == 0]
    return (int(outside[0]) if len(outside) else None), (len(quotes) + inside) % 2 == 1
