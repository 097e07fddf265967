"""Which files of a source are looked at again: those that are new or have changed, and no others."""

import json
import multiprocessing
import os
import pickle
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.readers.records import smallfiles
from penstock.readers.records.files.kinds import FILE_KINDS, LAYOUTS, RecordFiles
from penstock.readers.records.judging import Verdict
from penstock.readers.records.knownfiles import KnownFiles, RecordSource
from penstock.readers.records.sourceindex import SourceIndex
from penstock.store.local import LocalStore
from tests.pipelines.chat_sources import KINDS, records
from tests.readers.records.test_sourceindex import no_derived
from tests.same_stat import overwrite_keeping_stat


class Looks:
    """A judge that accepts all records, and notes which files it was shown."""

    key = "all"
    counts = False
    keeps = False
    leave_out: Sequence[str] = ()
    accepts_all = False

    def __init__(self) -> None:
        self.seen: list[str] = []

    def judge(self, records: Sequence[dict[str, Any]], path: str) -> Sequence[Verdict]:
        self.seen.append(path)
        return [Verdict("")] * len(records)


def write(path: Path, word: str, lines: int = 3) -> None:
    path.write_text("".join(json.dumps({"text": f"{word} {number}"}) + "\n" for number in range(lines)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for name in "abcd":
        write(tmp_path / "data" / f"{name}.jsonl", name)
    return tmp_path


def listed(folder: Path, judge: Looks) -> KnownFiles:
    data = folder / "data"
    metadata = folder / "metadata"
    files = RecordFiles(lambda: LocalStore(data, metadata), no_derived, metadata)
    paths = sorted(path.name for path in data.iterdir())
    return KnownFiles(RecordSource("letters", files, paths, judge, metadata, group_items=2))


def opened(folder: Path, judge: Looks) -> SourceIndex:
    index = SourceIndex(listed(folder, judge))
    index.finish()
    return index


def looked_at(folder: Path) -> tuple[list[str], list[str]]:
    """The files that the next run looks at, and the first record of each file."""
    judge = Looks()
    index = opened(folder, judge)
    firsts = [index.find(path, 0) for path in index.known.table.texts("path")]
    assert firsts == [[3 * number] for number in range(len(firsts))]
    groups = [index.group(number) for number in range(0, 2 * len(firsts), 2)]
    return judge.seen, [group.file_index.file.load(tuple(group.places[0].tolist()))["text"] for group in groups]


def test_the_second_run_opens_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert looked_at(folder)[0] == ["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"]
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "open_file", lambda *_: pytest.fail("a file was opened"))
        index = opened(folder, Looks())
        assert index.records == 12 and index.content_keys()
    assert looked_at(folder) == ([], ["a 0", "b 0", "c 0", "d 0"])


def test_a_process_that_listed_the_files_before_keeps_what_others_have_indexed(folder: Path) -> None:
    judge = Looks()
    before = listed(folder, judge)
    assert not before.table.is_indexed().any()
    write(folder / "data" / "e.jsonl", "e")
    looked_at(folder)
    before.keys()  # writes its table
    assert before.table.texts("path") == ["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"]
    SourceIndex(before).finish()
    assert judge.seen == []
    assert looked_at(folder) == (["e.jsonl"], ["a 0", "b 0", "c 0", "d 0", "e 0"])


def test_only_files_that_are_new_or_have_changed_are_looked_at_again(folder: Path) -> None:
    looked_at(folder)
    data = folder / "data"
    write(data / "b.jsonl", "another")
    write(data / "e.jsonl", "e")
    (data / "c.jsonl").unlink()
    assert looked_at(folder) == (["b.jsonl", "e.jsonl"], ["a 0", "another 0", "d 0", "e 0"])
    assert looked_at(folder)[0] == []


def test_a_file_with_the_same_inode_size_and_mtime_is_looked_at_again_for_its_ctime(folder: Path) -> None:
    looked_at(folder)
    path = folder / "data" / "b.jsonl"
    overwrite_keeping_stat(path, path.read_bytes().replace(b"b", b"z"))
    assert looked_at(folder) == (["b.jsonl"], ["a 0", "z 0", "c 0", "d 0"])


def test_a_file_changed_again_within_one_tick_is_looked_at_again(folder: Path) -> None:
    path = folder / "data" / "b.jsonl"
    for letter in "zyxwvu":
        write(path, letter)
        seen, firsts = looked_at(folder)
        assert "b.jsonl" in seen and firsts[1] == f"{letter} 0"


def test_a_new_ctime_alone_keeps_the_index(folder: Path) -> None:
    looked_at(folder)
    (folder / "data" / "b.jsonl").chmod(0o600)
    assert looked_at(folder)[0] == []
    assert looked_at(folder)[0] == []


def test_a_copy_has_the_same_content_keys(folder: Path, tmp_path: Path) -> None:
    keys = opened(folder, Looks()).content_keys()
    shutil.copytree(folder / "data", tmp_path / "copy" / "data")
    assert opened(tmp_path / "copy", Looks()).content_keys() == keys


def test_without_a_place_to_write_each_process_looks_at_all_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("penstock.readers.records.tablefolder.write_atomically", fail)
    monkeypatch.setattr("penstock.readers.records.knownfiles.LockedFile", fail)
    assert looked_at(folder) == (["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"], ["a 0", "b 0", "c 0", "d 0"])
    assert len(looked_at(folder)[0]) == 4
    table = pickle.loads(pickle.dumps(opened(folder, Looks()).known.table))
    assert table.texts("path") == ["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"] and table.is_indexed().all()


def test_every_layout_is_among_those_that_a_table_is_valid_for(tmp_path: Path) -> None:
    for name, make in KINDS.items():
        (tmp_path / name).write_bytes(make(records(3)))
    files = RecordFiles(lambda: LocalStore(tmp_path), lambda _: None, tmp_path / "metadata")  # type: ignore[arg-type,return-value]
    found = {files.open(name).layout for name in KINDS if not name.endswith((".gz", ".zst"))}
    assert {each.removesuffix("-44").removesuffix("-9") for each in found} | {"arrow-1"} == set(LAYOUTS)
    assert len(FILE_KINDS) == 8  # of a new kind, add the layout


def test_a_file_that_disappears_between_listing_and_reading_is_named(folder: Path) -> None:
    judge = Looks()
    data = folder / "data"
    files = RecordFiles(lambda: LocalStore(data), no_derived, folder / "metadata")
    source = RecordSource("letters", files, ["a.jsonl", "gone.jsonl"], judge, folder / "metadata", group_items=2)
    with pytest.raises(FileNotFoundError, match=r"gone\.jsonl: no such file"):
        SourceIndex(KnownFiles(source)).finish()
    assert not os.path.exists(folder / "metadata" / "tables")


def make_index(folder: Path, found: Any, pause: float) -> None:
    """In a process of its own: make the index, slowly."""
    smallfiles._SECONDS_PER_PART = 0.0
    judge = Looks()
    judge.judge = lambda records, path: time.sleep(pause) or Looks.judge(judge, records, path)  # type: ignore[method-assign,func-returns-value]
    index = opened(folder, judge)
    found.put((judge.seen, index.starts(0).tolist()))


def test_of_several_processes_one_makes_the_index_and_a_killed_one_loses_little(folder: Path) -> None:
    for number in range(20):
        write(folder / "data" / f"{number:02}.jsonl", str(number))
    fork = multiprocessing.get_context("fork")
    found = fork.Queue()
    killed = fork.Process(target=make_index, args=(folder, found, 0.1))
    killed.start()
    tables = folder / "metadata" / "tables"
    deadline = time.monotonic() + 60
    while len(list(tables.glob("*/*.part"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    others = [fork.Process(target=make_index, args=(folder, found, 0.0)) for _ in range(4)]
    for other in others:
        other.start()
    os.kill(killed.pid or 0, signal.SIGKILL)
    answers = [found.get(timeout=60) for _ in others]
    for process in (killed, *others):
        process.join(60)
    seen = [path for paths, _ in answers for path in paths]
    assert 0 < len(seen) == len(set(seen)) <= 21  # no file twice, and not those that the killed process wrote
    assert {tuple(starts) for _, starts in answers} == {tuple(opened(folder, Looks()).starts(0).tolist())}
    assert not list(tables.glob("*/*.part"))
    assert len(list(tables.glob("*/.*.partial"))) <= 1  # what the killed process was writing
