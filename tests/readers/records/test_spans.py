"""Where records lie in windows, against what the ``json`` and ``csv`` modules read from the whole."""

import csv
import io
import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.readers.records.spans import (
    Carry,
    array_start,
    csv_spans,
    element_end,
    element_spans,
    line_spans,
    row_end,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('a"\\,[]{}\n é', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('k"\\', max_size=2), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.text('ab",\n\té', max_size=6)


def window(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def cut(data: bytes, spans) -> list[bytes]:
    return [data[start:end] for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)]


def read_in_windows(data: bytes, find, size: int) -> list[bytes]:
    """All records, read with windows that grow until one holds a record."""
    found: list[bytes] = []
    at = 0
    span = size
    while at < len(data):
        part = data[at : at + span]
        spans = find(window(part), last=at + len(part) >= len(data))
        found += cut(part, spans)
        if spans.ended:
            break
        at += spans.used
        span = size if spans.used else 2 * span
    return found


@given(
    st.lists(st.text("ab é\t", max_size=5), max_size=8),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.integers(1, 9),
)
def test_lines_are_those_that_have_any_content_whatever_the_window(lines, end, ended, size) -> None:
    data = (end.join(lines) + (end if ended else "")).encode()
    assert read_in_windows(data, line_spans, size) == [line.encode() for line in lines if line.strip()]


@given(st.lists(VALUES, max_size=6), st.sampled_from([None, 1]), st.booleans(), st.integers(1, 12))
def test_elements_of_an_array_are_those_that_json_reads_whatever_the_window(values, indent, ascii_only, size) -> None:
    data = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode()
    start = array_start(window(data))
    assert start is not None
    assert [json.loads(each) for each in read_in_windows(data[start:], element_spans, size)] == values


@given(st.lists(VALUES, min_size=1, max_size=3), st.integers(1, 7))
def test_the_end_of_an_element_is_found_piece_by_piece(values, size) -> None:
    data = json.dumps(values).encode()
    carry = Carry()
    for at in range(1, len(data), size):
        found, carry = element_end(window(data[at : at + size]), carry)
        if found is not None:
            assert json.loads(data[1 : at + found]) == values[0]
            return
    raise AssertionError("there is no end")


@given(
    st.lists(st.lists(FIELDS, min_size=2, max_size=3), min_size=1, max_size=6),
    st.sampled_from("\t,"),
    st.integers(1, 12),
)
def test_rows_of_csv_are_those_that_were_written_whatever_the_window(rows, delimiter, size) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    data = text.getvalue().encode()

    def find(part, *, last):
        return csv_spans(part, last=last, delimiter=delimiter)

    found = read_in_windows(data, find, size)
    assert [next(csv.reader(io.StringIO(row.decode(), newline=""), delimiter=delimiter)) for row in found] == rows


@given(st.text('ab",\n', max_size=30))
def test_any_text_has_the_rows_that_the_csv_module_finds(text) -> None:
    found = csv_spans(window(text.encode()), last=True)
    rows = [next(csv.reader(io.StringIO(row.decode(), newline=""))) for row in cut(text.encode(), found)]
    assert rows == [row for row in csv.reader(io.StringIO(text, newline="")) if row]


@given(st.lists(FIELDS, min_size=1, max_size=3), st.integers(1, 7))
def test_the_end_of_a_row_is_found_piece_by_piece(fields, size) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    data = text.getvalue().encode()
    inside = False
    for at in range(0, len(data), size):
        found, inside = row_end(window(data[at : at + size]), inside)
        if found is not None:
            assert at + found == len(data) - 1
            return
    raise AssertionError("there is no end")


def test_what_is_no_array_has_no_start() -> None:
    assert array_start(window(b' {"a": [1]}')) is None
    assert array_start(window(b"  ")) is None


def test_an_array_that_is_truncated_ends_with_an_element_that_json_refuses() -> None:
    data = b'{"a": 1}, {"b": "x'
    assert cut(data, element_spans(window(data), last=True)) == [b'{"a": 1}', b'{"b": "x']
