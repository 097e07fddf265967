"""Where rows of CSV lie in windows, against what the ``csv`` module reads from the whole."""

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from penstock.readers.records.files.csvfile import csv_spans, row_end
from tests.readers.records.files.reading import cut, read_in_windows, window

FIELDS = st.text('ab",\n\té', max_size=6)


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
