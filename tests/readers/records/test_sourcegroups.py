"""The groups of a source: cut file by file, and no further than was asked for."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.readers.records.files import Files
from penstock.readers.records.judging import Verdict
from penstock.readers.records.sourcegroups import ALL, RecordSource, SourceGroups
from penstock.store.cache.derived import DerivedStore, Maker
from penstock.store.local import LocalStore

PATHS = ("a.jsonl", "b.jsonl")


class EvenNumbers:
    key = "even numbers"
    counts = False
    keeps = False
    leave_out: Sequence[str] = ()
    accepts_all = False

    def judge(self, records: Sequence[dict[str, Any]], path: str) -> Sequence[Verdict]:
        return [Verdict("odd" if record["number"] % 2 else "") for record in records]


def no_derived(maker: Maker) -> DerivedStore:
    raise AssertionError(f"plain files need no {maker}")


def groups(folder: Path) -> SourceGroups:
    for path in PATHS:
        lines = [json.dumps({"number": number}) for number in range(20)]
        (folder / path).write_text("\n".join(lines))
    files = Files(lambda: LocalStore(folder), no_derived, folder / "shelf")
    return SourceGroups(RecordSource("numbers", files, PATHS, EvenNumbers(), folder / "shelf", group_items=4))


def test_the_first_items_need_the_first_file_only(tmp_path: Path) -> None:
    found = groups(tmp_path)
    assert found.starts(1).tolist() == [0, 3, 6, 10]
    assert not found.complete
    assert found.records == 20


def test_groups_lie_in_one_file_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    found = groups(tmp_path)
    found.starts(ALL)
    files, items = found.known()
    assert files.tolist() == [0, 0, 0, 1, 1, 1]
    assert items.tolist() == [3, 3, 4, 3, 3, 4]
    assert found.reasons == {"odd": 20}


def test_a_group_is_found_before_the_groups_up_to_it_are_known(tmp_path: Path) -> None:
    found = groups(tmp_path)
    assert found.place(4) == [1, 0, 3]
    assert found.segment_start(1, 0) == 10
