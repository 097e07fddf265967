"""Where records of JSON lie in windows, against what the ``json`` module reads from the whole."""

import json

from hypothesis import given
from hypothesis import strategies as st

from penstock.readers.records.files.jsonfile import Carry, array_start, element_end, element_spans, line_spans
from tests.readers.records.files.reading import cut, read_in_windows, window

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('a"\\,[]{}\n é', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('k"\\', max_size=2), inner, max_size=3),
    max_leaves=8,
)


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


def test_what_is_no_array_has_no_start() -> None:
    assert array_start(window(b' {"a": [1]}')) is None
    assert array_start(window(b"  ")) is None


def test_an_array_that_is_truncated_ends_with_an_element_that_json_refuses() -> None:
    data = b'{"a": 1}, {"b": "x'
    assert cut(data, element_spans(window(data), last=True)) == [b'{"a": 1}', b'{"b": "x']
