"""Files that change under a run, and a cache that is removed: one sentence that says so, never a wrong sample."""

import pickle
import shutil
from pathlib import Path

import pytest

from penstock.store.remote.remote import ObjectChanged
from tests.pipelines.chat_sources import KINDS, open_chat, records, texts

ROWS = records(300)
OTHER = records(300, "a longer word")


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.csv", "rows.arrow", "rows.tar", "rows.parquet"])
def test_a_file_that_is_written_to_under_a_run_is_an_error_that_says_so(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(KINDS[name](ROWS))
    feed = open_chat(tmp_path, path, shuffle=True)
    path.write_bytes(KINDS[name](OTHER))
    with pytest.raises((ObjectChanged, EOFError, OSError), match=r"start the run again|index it again"):
        feed.batch(0)


def test_a_worker_process_that_finds_another_file_does_not_index_that_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(KINDS["rows.jsonl"](ROWS))
    feed = open_chat(tmp_path, path)
    feed.batch(0)
    worker = pickle.dumps(feed)
    path.write_bytes(KINDS["rows.jsonl"](OTHER))
    with pytest.raises(ObjectChanged, match=r"rows\.jsonl: was replaced during the run"):
        pickle.loads(worker).batch(0)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.arrow", "rows.tar"])
def test_a_run_goes_on_with_the_file_that_it_has_open_when_another_takes_its_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(KINDS[name](ROWS))
    expected = texts(open_chat(tmp_path, path), 3)
    feed = open_chat(tmp_path, path)
    assert texts(feed, 1) == expected[:4]
    (tmp_path / "new").write_bytes(KINDS[name](OTHER))
    (tmp_path / "new").rename(path)
    assert texts(feed, 3) == expected


def test_a_cache_that_is_removed_under_a_run_is_an_error_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(KINDS["rows.parquet"](ROWS))
    feed = open_chat(tmp_path, path)
    feed.batch(0)
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(OSError, match="the cache removed under a running job"):
        feed.batch(5)
