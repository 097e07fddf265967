"""The groups of a source: cut file by file, and no further than was asked for."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock.readers.records.files.kinds import RecordFiles
from penstock.readers.records.judging import Verdict
from penstock.readers.records.knownfiles import KnownFiles, RecordSource
from penstock.readers.records.sourceindex import SourceIndex
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


def groups(folder: Path) -> SourceIndex:
    for path in PATHS:
        lines = [json.dumps({"number": number}) for number in range(20)]
        (folder / path).write_text("\n".join(lines))
    files = RecordFiles(lambda: LocalStore(folder), no_derived, folder / "metadata")
    source = RecordSource("numbers", files, PATHS, EvenNumbers(), folder / "metadata", group_items=4)
    return SourceIndex(KnownFiles(source))


def test_the_first_items_need_the_first_file_only(tmp_path: Path) -> None:
    found = groups(tmp_path)
    assert found.starts(1).tolist() == [0, 3, 6, 10]
    assert not found.complete
    assert found.records == 20


def test_groups_lie_in_one_file_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    found = groups(tmp_path)
    found.finish()
    assert [found.group_path(group) for group in range(6)] == [PATHS[0]] * 3 + [PATHS[1]] * 3
    assert np.diff(found.starts(0)).tolist() == [3, 3, 4, 3, 3, 4]
    assert found.reasons == {"odd": 20}


def test_a_group_is_found_before_the_groups_up_to_it_are_known(tmp_path: Path) -> None:
    found = groups(tmp_path)
    group = found.group(4)
    assert (group.path, group.segment, group.first) == ("b.jsonl", 0, 3)
    assert group.rows.tolist() == [6, 8, 10]
    assert found.find("b.jsonl", 6) == [13]
