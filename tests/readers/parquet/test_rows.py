"""Rows are read by ranges: of any row groups, only the columns that are asked for, and damage is told from bad luck."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.readers.parquet.footer import Footer, NotParquet, find_footer
from penstock.readers.parquet.rows import read_row_groups, row_batches
from penstock.readers.ranges import WHOLE_BYTES, Ranges
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.local import LocalStore
from tests.readers.parquet.tables import parquet_bytes, table_of, write_parquet
from tests.store.folder_remote import FolderRemote

GROUPS = (40, 1, 100, 0, 59)
ROWS = sum(GROUPS)


def opened(folder: Path, path: str = "rows.parquet") -> tuple[Ranges, Footer]:
    ranges = Ranges(lambda: LocalStore(folder))
    return ranges, ranges.follow(path, find_footer)


@pytest.mark.parametrize("groups", [[0], [1, 2], [2, 3, 4], [0, 1, 2, 3, 4]])
def test_row_groups_have_the_rows_that_were_written(tmp_path: Path, groups: list[int]) -> None:
    data = write_parquet(tmp_path / "rows.parquet", ROWS, GROUPS)
    ranges, footer = opened(tmp_path)
    expected = pq.ParquetFile(io.BytesIO(data)).read_row_groups(groups)
    assert read_row_groups(ranges, "rows.parquet", footer, groups) == expected
    some = read_row_groups(ranges, "rows.parquet", footer, groups, ["state", "index"])
    assert some.column_names == ["state", "index"] and some.column("state") == expected.column("state")


def test_batches_of_a_row_group_are_its_rows_in_order(tmp_path: Path) -> None:
    table = table_of(1_000)
    (tmp_path / "rows.parquet").write_bytes(parquet_bytes(table, (300, 700)))
    ranges, footer = opened(tmp_path)
    batches = list(row_batches(ranges, "rows.parquet", footer, 1, ["index", "text"]))
    assert len(batches) > 1, "a row group with images is not decoded at once"
    assert pa.Table.from_batches(batches) == table.slice(300).select(["index", "text"])


def test_from_a_store_only_the_row_group_is_fetched_and_of_it_only_what_the_columns_need(tmp_path: Path) -> None:
    remote = FolderRemote(tmp_path / "bucket")
    rows = WHOLE_BYTES // 300
    remote.put("rows.parquet", parquet_bytes(table_of(2 * rows), (rows, rows)))
    store = CachedStore(remote, NodeCache(tmp_path / "cache", 10**8, part_bytes=4_096, patience=0))
    ranges = Ranges(lambda: store)
    footer = ranges.follow("rows.parquet", find_footer)
    remote.gets.clear()
    table = read_row_groups(ranges, "rows.parquet", footer, [1], ["index"])
    assert table.column("index").to_pylist() == list(range(rows, 2 * rows))
    start, end = footer.byte_ranges[1]
    assert all(start <= first and last <= end for _, first, last in remote.gets)
    assert sum(last - first for _, first, last in remote.gets) < (end - start) / 10


def test_damaged_rows_are_no_parquet(tmp_path: Path) -> None:
    data = write_parquet(tmp_path / "rows.parquet", ROWS, GROUPS)
    ranges, footer = opened(tmp_path)
    start, end = footer.byte_ranges[2]
    random = np.random.default_rng(1)
    refused = 0
    for number in range(200):
        changed = bytearray(data)
        for at in random.integers(start, end, 30).tolist():
            changed[at] = int(random.integers(256))
        path = tmp_path / f"{number}.parquet"
        path.write_bytes(changed)
        for read in (
            lambda path: read_row_groups(ranges, path, footer, [2]),
            lambda path: list(row_batches(ranges, path, footer, 2)),
        ):
            try:
                read(path.name)
            except NotParquet:
                refused += 1
        path.unlink()
    assert refused > 100


def test_a_store_that_does_not_answer_is_not_damage(tmp_path: Path) -> None:
    def fail(start: int, end: int) -> None:
        raise ConnectionError("the store does not answer")

    remote = FolderRemote(tmp_path / "bucket")
    remote.put("rows.parquet", parquet_bytes(table_of(ROWS), GROUPS) + b"")
    store = CachedStore(remote, NodeCache(tmp_path / "cache", 10**8, part_bytes=512, patience=0))
    ranges = Ranges(lambda: store)
    footer = ranges.follow("rows.parquet", find_footer)
    other = CachedStore(remote, NodeCache(tmp_path / "other", 10**8, part_bytes=512, patience=0))
    remote.before_get = fail
    with pytest.raises(ConnectionError, match="does not answer"):
        read_row_groups(Ranges(lambda: other), "rows.parquet", footer, [1])
    with pytest.raises(ConnectionError, match="does not answer"):
        list(row_batches(Ranges(lambda: other), "rows.parquet", footer, 1))
