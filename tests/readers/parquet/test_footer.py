"""A footer is found by one or two reads of the file's end, and says where row groups lie. Damage is ``NotParquet``."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.readers.parquet.footer import FOOTER, Footer, NotParquet, find_footer
from tests.readers.parquet.tables import parquet_bytes, table_of
from tests.videos import run_search

GROUPS = (40, 1, 100, 0, 59)
DATA = parquet_bytes(table_of(sum(GROUPS)), GROUPS)


def looked_at(footer: Footer) -> Footer:
    """A footer after all of it was looked at, as a run does."""
    _ = footer.first_rows, footer.byte_ranges
    return footer


def test_a_footer_is_found_by_one_read_of_the_end() -> None:
    footer, asked = run_search(DATA, find_footer)
    assert asked == [(max(0, len(DATA) - (64 << 10)), len(DATA))]
    assert footer.first_rows.tolist() == [0, 40, 41, 141, 141, 200]
    assert footer.metadata.num_columns == 4


def test_a_long_footer_is_found_by_two_reads_without_the_rows() -> None:
    wide = pa.table({f"a column with a long name {number}": np.arange(3) for number in range(1_000)})
    data = parquet_bytes(wide, (3,))
    footer, asked = run_search(data, find_footer)
    assert len(asked) == 2 and asked[0][0] == asked[1][1]
    assert sum(end - start for start, end in asked) <= len(footer.data) + 8
    assert footer.metadata.num_columns == 1_000


def test_row_groups_lie_one_after_another_in_the_file() -> None:
    footer, _ = run_search(DATA, find_footer)
    assert len(footer.byte_ranges) == len(GROUPS)
    assert footer.byte_ranges[0][0] == 4, "the file begins with four letters"
    assert all(end == start for (_, end), (start, _) in pairwise(footer.byte_ranges))
    assert footer.byte_ranges[-1][1] <= len(DATA) - len(footer.data)


def test_the_end_of_a_file_that_was_read_for_the_footer_is_a_unit_of_its_last_row_groups() -> None:
    rows = 40_000
    data = parquet_bytes(table_of(rows), (rows // 4,) * 4)
    footer, [tail] = run_search(data, find_footer)
    assert len(data) > 2 * (64 << 10)
    for group, (start, end) in enumerate(footer.byte_ranges):
        units = footer.units_of(group)
        assert units == ((start, end),) if end <= tail[0] else units[-1] == tail
        assert units[0][0] <= start and units[-1][1] >= end
    assert footer.units[-1] == tail
    assert all(before[1] <= after[0] for before, after in pairwise(footer.units)), "no byte is in two units"


def test_what_comes_back_from_disk_is_the_same_footer() -> None:
    footer, _ = run_search(DATA, find_footer)
    again = FOOTER.from_bytes(memoryview(FOOTER.to_bytes(footer)))
    assert again == footer and again.byte_ranges == footer.byte_ranges


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.data())
def test_rows_are_found_in_their_row_groups_also_beside_empty_ones(sizes: list[int], data: st.DataObject) -> None:
    rows = sum(sizes)
    if not rows:
        return
    footer = Footer(0, b"")
    object.__setattr__(footer, "first_rows", np.concatenate([[0], np.cumsum(sizes)]))
    start = data.draw(st.integers(0, rows - 1))
    stop = data.draw(st.integers(start + 1, rows))
    group_of = np.repeat(np.arange(len(sizes)), sizes)
    found = footer.groups_of(start, stop)
    assert (found[0], found[-1]) == (group_of[start], group_of[stop - 1])


def test_every_truncation_is_refused() -> None:
    for end in [*range(0, len(DATA), 211), *range(len(DATA) - 50, len(DATA))]:
        with pytest.raises(NotParquet):
            looked_at(run_search(DATA[:end], find_footer)[0])


def test_row_groups_beyond_the_end_of_the_file_are_refused() -> None:
    footer, _ = run_search(DATA, find_footer)
    with pytest.raises(NotParquet, match="row group 4 is said to be bytes"):
        looked_at(Footer(footer.byte_ranges[4][1] - 1, footer.data))


def test_a_damaged_footer_is_refused() -> None:
    footer, _ = run_search(DATA, find_footer)
    for data in (b"", b"\0" * 50, footer.data[:-20], bytes(reversed(footer.data))):
        with pytest.raises(NotParquet, match="its footer is damaged"):
            looked_at(Footer(len(DATA), data))
