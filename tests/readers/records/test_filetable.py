"""The table of a source's files: what is written comes back, a damaged one counts as missing."""

import os
import pickle
import time
from pathlib import Path

import numpy as np
import pytest

from penstock.readers.records.fileindex import Summary
from penstock.readers.records.filetable import FileFacts, FileTable
from penstock.readers.records.tablefolder import newest_table, write_part, write_table
from penstock.runtime.shared import pickling_for_workers

SMALL = FileFacts(
    "a b.jsonl", 120, "1-120-7-8", "1-120-7-6", "3f2a", Summary((3,), (2,), (None,), 17, {"odd": 1}), [b"one segment"]
)
LARGE = FileFacts("ä.jsonl", 1 << 40, "2", "2", "77", Summary((9, 8), (9, 0), (5, None), 4, {}, {"cut": 2}))
NEW = FileFacts("\udcff.json", 5, "3")  # its name is not UTF-8
ROWS = [SMALL, LARGE, NEW]


def all_rows(table: FileTable) -> list[FileFacts]:
    return [table.facts(row) for row in range(len(table))]


def same(one: list[FileFacts], other: list[FileFacts]) -> bool:
    return [(each, *each.segments) for each in map(plain, one)] == [
        (each, *each.segments) for each in map(plain, other)
    ]


def plain(facts: FileFacts) -> FileFacts:
    return FileFacts(**{**vars(facts), "segments": list(facts.segments)})


def test_rows_come_back_from_disk_by_number_and_by_path(tmp_path: Path) -> None:
    write_table(tmp_path / "tables" / "one", FileTable.of(ROWS))
    table = newest_table(tmp_path / "tables" / "one")
    assert same(all_rows(table), ROWS)
    assert [table.row(each.path) for each in (*ROWS, FileFacts("none", 0, ""))] == [0, 1, 2, None]
    assert table.is_indexed().tolist() == [True, True, False]
    assert (table.total("size"), table.total("records"), table.total("tokens")) == (120 + (1 << 40) + 5, 20, 21)
    assert list(table.counted("reasons")) == [{"odd": 1}, {}]


def test_rows_that_a_listing_does_not_change_are_found_whatever_their_order() -> None:
    table = FileTable.of(ROWS)
    assert table.unchanged([each.path for each in ROWS], [each.stamp for each in ROWS]).tolist() == [0, 1, 2]
    assert table.unchanged(["ä.jsonl", "new", "a b.jsonl"], ["2", "9", "other"]).tolist() == [1, -1, -1]
    assert FileTable.of([]).unchanged(["a"], ["1"]).tolist() == [-1]


def test_rows_are_taken_and_joined_with_their_segments() -> None:
    table = FileTable.of(ROWS)
    both = table.take(np.array([2, 0])).joined(FileTable.of([SMALL, LARGE]))
    assert same(all_rows(both), [NEW, SMALL, SMALL, LARGE])


@pytest.mark.parametrize("at", [0, 40, -1])
def test_a_damaged_table_is_missing_or_lacks_the_damaged_segment(at: int, tmp_path: Path) -> None:
    table = write_table(tmp_path / "tables" / "one", FileTable.of(ROWS))
    assert table.path is not None
    data = bytearray(table.path.read_bytes())
    data[at] ^= 1
    table.path.write_bytes(data)
    found = newest_table(tmp_path / "tables" / "one")
    if at:
        assert not len(found)
    else:
        assert found.segment(0, 0) is None and not found.facts(0).summary.complete


def test_parts_count_before_the_table_and_are_removed_with_the_next_one(tmp_path: Path) -> None:
    folder = tmp_path / "tables" / "one"
    write_table(folder, FileTable.of([NEW, LARGE]))
    changed = FileFacts(NEW.path, 6, "4", "4", "k", Summary((1,), (1,), (None,)))
    write_part(folder, FileTable.of([changed]))
    write_part(folder, FileTable.of([SMALL]))
    table = newest_table(folder)
    assert table.unchanged([NEW.path, LARGE.path, SMALL.path], ["4", "2", SMALL.stamp]).min() >= 0
    assert sorted(path.suffix for path in folder.glob("[!.]*")) == [".part", ".part", ".table"]
    write_table(folder, table)
    assert {path.suffix for path in folder.glob("[!.]*")} == {".table"}


def test_the_newest_table_counts_and_old_ones_are_removed_after_an_hour(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    paths = [write_table(tables / "one", FileTable.of(ROWS[:count])).path for count in (1, 2)]
    assert len(newest_table(tables / "one")) == 2
    for path in paths:
        assert path is not None
        os.utime(path, (0, time.time() - 4_000))
    write_table(tables / "one", FileTable.of(ROWS))
    assert [path.suffix for path in (tables / "one").glob("[!.]*")] == [".table"]


def test_a_worker_maps_the_file_and_another_process_gets_a_copy(tmp_path: Path) -> None:
    table = write_table(tmp_path / "tables" / "one", FileTable.of(ROWS * 1_000))
    assert table.path is not None
    with pickling_for_workers():
        for_worker = pickle.dumps(table)
    copy = pickle.dumps(table)
    assert len(for_worker) < 500
    assert pickle.loads(for_worker).path == table.path
    table.path.unlink()
    with pickling_for_workers():
        unlinked = pickle.dumps(table)
    assert same(all_rows(pickle.loads(copy))[:3], ROWS) and same(all_rows(pickle.loads(unlinked))[:3], ROWS)
