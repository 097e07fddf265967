"""The shelf of stored indexes: what serves no run any more is removed, what a run uses stays."""

import os
import shutil
import time
from pathlib import Path

import pytest

from penstock.readers.metadatacache import MetadataCache, ObjectVersion
from penstock.readers.records.keptitems import KeptItems
from penstock.readers.shelf import UNUSED_SECONDS, bound, clean
from penstock.store.local import LocalStore
from tests.cli.commands import run
from tests.pipelines.test_chat_index import folder as indexed_folder
from tests.pipelines.test_chat_index import write_run

folder = indexed_folder
KIND = "segments of a test 1"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    (tmp_path / "data").mkdir()
    for name in ("same", "changed", "gone", "touched"):
        (tmp_path / "data" / name).write_text(name)
    return LocalStore(tmp_path / "data")


def put(shelf: Path, store: LocalStore, name: str) -> Path:
    version = ObjectVersion(store.identity, name, store.stamps([name])[0][0])
    MetadataCache(shelf, KIND).put(version, b"body")
    return shelf / MetadataCache(shelf, KIND).name(version)


def age(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds, time.time() - seconds))


def test_metadata_of_files_that_changed_or_are_gone_is_removed(store: LocalStore, tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    kept = {name: put(shelf, store, name) for name in ("same", "changed", "gone", "touched")}
    (store.root / "changed").write_text("anything")
    (store.root / "gone").unlink()
    (store.root / "touched").chmod(0o600)
    assert clean(shelf) > 0
    assert {name for name, path in kept.items() if path.exists()} == {"same", "touched"}
    shutil.rmtree(store.root)  # as a disk that is not mounted
    assert clean(shelf) == 0 and kept["same"].exists()


def test_what_was_not_used_for_long_is_removed_with_the_items_that_belong_to_it(tmp_path: Path) -> None:
    items = KeptItems(tmp_path, "about", lambda: ObjectVersion("s3://bucket", "rows.jsonl", "etag"))
    items.put(0, [b"tokens"])
    [learnt] = tmp_path.glob("*.learnt")
    assert clean(tmp_path) == 0
    age(learnt, UNUSED_SECONDS + 60)
    assert clean(tmp_path) > len(b"tokens")
    assert not [path for path in tmp_path.iterdir() if not path.name.startswith(".")]


def test_locks_and_partial_files_stay_for_a_day(tmp_path: Path) -> None:
    for name in (".a.lock", ".b.segments", ".c.partial", ".d.lock"):
        (tmp_path / name).touch()
        age(tmp_path / name, 90_000 if name != ".d.lock" else 60)
    clean(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".d.lock"]


def test_beyond_its_bound_the_least_recently_used_goes_but_nothing_of_today(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.items").write_bytes(bytes(100))
        age(tmp_path / f"{number}.items", 86_400 * (4 - number) - 3_600)
    assert bound(tmp_path, 250) == 200
    assert sorted(path.name for path in tmp_path.glob("*.items")) == ["2.items", "3.items"]
    assert bound(tmp_path, 0) == 0  # looks once a day
    age(tmp_path / ".bounded", 90_000)
    assert bound(tmp_path, 0) == 100
    assert [path.name for path in tmp_path.glob("*.items")] == ["3.items"]
    assert bound(tmp_path / "none", 0) == 0


def test_index_clean_removes_the_index_of_files_that_changed_and_keeps_the_new_one(folder: Path) -> None:
    config = write_run(folder, folder / "cleaned")
    assert run("index", str(config), "--tokens").exit_code == 0
    shelf = folder / "cleaned" / ".penstock" / "indexes"
    before = {path.name for path in shelf.rglob("*.items")}
    rows = folder / "rows.jsonl"
    rows.write_text(rows.read_text() + '{"prompt": "One more?", "completion": "Yes."}\n')
    done = run("index", str(config), "--tokens", "--clean")
    assert done.exit_code == 0 and "of stored indexes removed" in done.output
    after = {path.name for path in shelf.rglob("*.items")}
    assert before and after and not before & after
    assert "0 bytes of stored indexes removed" in run("index", str(config), "--tokens", "--clean").output
