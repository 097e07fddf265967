"""Groups of packs: the small groups of a file that follow one another are one, and nothing of them is lost."""

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.readers.lrucache import LruCache
from penstock.readers.reader import Uses
from penstock.readers.records import packed
from penstock.readers.records.files.kinds import RecordFiles
from penstock.readers.records.judging import Verdict
from penstock.readers.records.knownfiles import KnownFiles, RecordSource
from penstock.readers.records.packed import PackGroups, PackManifest, PackReader, count_packs
from penstock.readers.records.sourceindex import SourceIndex
from penstock.store.local import LocalStore
from penstock.text.packs import deal
from tests.readers.records.test_sourceindex import no_derived

PATHS = ("a.jsonl", "b.jsonl")
RECORDS = 30
RECORD_BYTES = 120_000  # so that a file has segments of 1, 2 and less than 4 MiB
CAPACITY = 100


class ByNumber:
    """Every third record is no item; the others have lengths of their own."""

    key = "by number"
    counts = True
    keeps = False
    leave_out: Sequence[str] = ()
    accepts_all = False

    def judge(self, records: Sequence[dict[str, Any]], path: str) -> Sequence[Verdict]:
        return [
            Verdict("third" if each["number"] % 3 == 2 else "", 5 + each["number"], 1 + each["number"])
            for each in records
        ]


class LocalFolder:
    """Opens a folder, also in another process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self) -> LocalStore:
        return LocalStore(self.folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("packed")
    for path in PATHS:
        lines = [json.dumps({"number": number, "rest": "x" * RECORD_BYTES}) for number in range(RECORDS)]
        (made / path).write_text("\n".join(lines))
    return made


def index_of(folder: Path, group_items: int = 8) -> SourceIndex:
    files = RecordFiles(LocalFolder(folder), no_derived, folder / "metadata")
    return SourceIndex(KnownFiles(RecordSource("numbers", files, PATHS, ByNumber(), folder / "metadata", group_items)))


def reader_of(folder: Path) -> tuple[PackManifest, PackReader]:
    groups = PackGroups(index_of(folder), most=100)
    counts = count_packs(groups, CAPACITY, deal, folder / "metadata", "numbers")
    manifest = PackManifest("numbers", groups, counts, fingerprint="", limit=None, modality="text")
    return manifest, PackReader(manifest, groups, None, CAPACITY, deal, seed=7)


def test_the_groups_of_a_file_are_one_and_those_of_two_files_are_not(folder: Path) -> None:
    groups = PackGroups(index_of(folder), most=100)
    assert len(index_of(folder).starts(1)) > 3  # groups of the first file alone
    assert [groups.path(group) for group in range(len(groups))] == list(PATHS)
    assert [len(groups.lengths(group)) for group in range(len(groups))] == [20, 20]


def test_groups_are_joined_up_to_the_most_samples(folder: Path) -> None:
    groups = PackGroups(index_of(folder, group_items=4), most=10)
    sizes = [len(groups.lengths(group)) for group in range(len(groups))]
    assert sum(sizes) == 40 and max(sizes) <= 10 and len(sizes) < 10


def test_samples_are_found_where_they_lie(folder: Path) -> None:
    groups = PackGroups(index_of(folder), most=100)
    for group in range(len(groups)):
        for sample, length in enumerate(groups.lengths(group).tolist()):
            record = groups.record(group, sample, None)
            assert record.length == length == 5 + record.load()["number"]
            assert groups.labels(group)[sample] == length - 4
            assert groups.find(20 * group + sample) == (group, sample)


def test_packs_hold_every_sample_once_also_in_another_process(folder: Path) -> None:
    manifest, reader = reader_of(folder)
    rows = np.arange(len(manifest))
    source, group, _ = manifest.locate(rows)
    zeros = np.zeros(len(rows), dtype=np.int64)
    uses = Uses(source, group, rows, zeros, zeros, zeros.astype(np.uint64))
    for each in (reader, pickle.loads(pickle.dumps(reader))):
        names = [(number, name) for number, pack in zip(group.tolist(), each.names(uses), strict=True) for name in pack]
        kept = [str(number) for number in range(RECORDS) if number % 3 != 2]
        assert sorted(names) == sorted((number, name) for number in (0, 1) for name in kept)
        assert each.group_bytes(0).tolist() == [0, 0]  # read in place
        assert len(each.resident(0, 0)) >= 1
    for row, pack in zip(rows.tolist(), zip(group.tolist(), reader.names(uses), strict=True), strict=True):
        assert all(row in reader.find(f"{PATHS[pack[0]]}:{name}", 0) for name in pack[1])


def test_the_members_of_a_pack_are_found_once_per_use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest, reader = reader_of(folder)
    rows = np.arange(len(manifest))
    source, group, _ = manifest.locate(rows)
    zeros = np.zeros(len(rows), dtype=np.int64)
    uses = Uses(source, group, rows, zeros, zeros, zeros.astype(np.uint64))
    found = []
    record = PackGroups.record
    monkeypatch.setattr(PackGroups, "record", lambda *asked: found.append(asked) or record(*asked))
    reader.wants(uses)
    places = reader.locate(uses)
    assert [[str(member.row) for member in pack] for pack in places] == reader.names(uses)
    assert len(found) == sum(map(len, places)) == 40
    reader.locate(uses._replace(epoch=zeros + 1))
    assert len(found) == 80


def test_packs_of_all_readers_share_a_bounded_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: LruCache[Any, Any] = LruCache(3)
    monkeypatch.setattr(packed, "_found", kept)
    _, one = reader_of(folder)
    _, other = reader_of(folder)
    row = np.zeros(1, dtype=np.int64)
    for epoch in range(3):
        uses = Uses(row, row, row, row + epoch, row, row.astype(np.uint64))
        [[first, *_]] = one.locate(uses)
        [[second, *_]] = other.locate(uses)
        assert first is not second and one.names(uses) == other.names(uses)
    assert not kept.has_room() and len(kept._values) == 3
