"""Files that change under a run, and a cache that is removed: one sentence that says so, never a wrong sample."""

import gzip
import io
import pickle
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.readers.records import fileindex
from penstock.store.remote.remote import ObjectChanged
from tests.pipelines.chat_sources import KINDS, Records, open_chat, records, texts
from tests.same_stat import overwrite_keeping_stat

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


def _parquet(rows: Records) -> bytes:
    sink = io.BytesIO()
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, sink, row_group_size=40, compression="none", use_dictionary=False, write_statistics=False)
    return sink.getvalue()


def _arrow(rows: Records, writer: Callable[..., Any]) -> bytes:
    table = pa.Table.from_pylist(rows)
    sink = pa.BufferOutputStream()
    with writer(sink, table.schema) as out:
        out.write_table(table)
    return bytes(sink.getvalue())


# Records in another order have as many bytes in these.
_SAME_SIZE: dict[str, Callable[[Records], bytes]] = {
    **{name: KINDS[name] for name in ("rows.jsonl", "rows.json", "rows.csv", "rows.tar")},
    "rows.arrow": lambda rows: _arrow(rows, pa.ipc.new_file),
    "stream.arrow": lambda rows: _arrow(rows, pa.ipc.new_stream),
    "rows.jsonl.gz": lambda rows: gzip.compress(KINDS["rows.jsonl"](rows), 0, mtime=0),
    "rows.parquet": _parquet,
}


def _tokens(folder: Path, path: Path, **keys: Any) -> list[Any]:
    with closing(open_chat(folder, path, **keys)) as feed:
        return [feed.batch(step)["input_ids"].tolist() for step in range(3)]


@pytest.mark.parametrize("keys", [{}, {"shuffle": True}, {"shuffle": True, "chat": {"pack": True}}], ids=str)
@pytest.mark.parametrize("name", _SAME_SIZE)
def test_a_file_made_anew_with_the_same_inode_size_and_mtime_is_indexed_anew(
    name: str, keys: dict[str, Any], tmp_path: Path
) -> None:
    lengths = range(11, 91)
    rows = [{"prompt": "How long?", "completion": "x" * length} for length in lengths]
    other = [{"prompt": "How long?", "completion": "y" * length} for length in reversed(lengths)]
    path = tmp_path / name
    path.write_bytes(_SAME_SIZE[name](other))
    expected = _tokens(tmp_path / "fresh", path, **keys)
    path.write_bytes(_SAME_SIZE[name](rows))
    before = _tokens(tmp_path, path, **keys)
    assert before != expected
    overwrite_keeping_stat(path, _SAME_SIZE[name](other))
    assert _tokens(tmp_path, path, **keys) == expected


def test_files_whose_permissions_changed_are_not_indexed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, make in _SAME_SIZE.items():
        (tmp_path / name).write_bytes(make(ROWS))
        before = _tokens(tmp_path, tmp_path / name, shuffle=True)
        (tmp_path / name).chmod(0o600)
        with monkeypatch.context() as patch:
            patch.setattr(fileindex, "index_segment", lambda *_: pytest.fail("it was indexed again"))
            assert _tokens(tmp_path, tmp_path / name, shuffle=True) == before


def test_a_run_goes_on_when_the_permissions_of_its_files_change(tmp_path: Path) -> None:
    for name, make in _SAME_SIZE.items():
        path = tmp_path / name
        path.write_bytes(make(ROWS))
        expected = texts(open_chat(tmp_path, path), 3)
        with closing(open_chat(tmp_path, path)) as feed:
            found = texts(feed, 1)
            path.chmod(0o600)
            worker = pickle.dumps(feed)
            assert texts(feed, 3) == expected and found == expected[:4]
            assert texts(pickle.loads(worker), 3) == expected


def test_packs_of_a_large_file_that_differs_only_in_its_middle_are_counted_anew(tmp_path: Path) -> None:
    edge = [{"prompt": "How long?", "completion": "x" * 2_000}] * 600
    middles = [[10] * 100, [1] * 50 + [19] * 50, [1] * 80 + [46] * 20]
    path = tmp_path / "rows.jsonl"
    found = []
    for middle in middles:
        rows = [*edge, *({"prompt": "How long?", "completion": "x" * length} for length in middle), *edge]
        path.write_bytes(KINDS["rows.jsonl"](rows))
        assert path.stat().st_size > 2 << 20
        chat = {"pack": True, "max_length": 64, "too_long": "drop"}
        with closing(open_chat(tmp_path, path, shuffle=True, chat=chat)) as feed:
            found.append([feed.batch(step)["input_ids"].tolist() for step in range(8)])
    assert found[0] != found[1] != found[2]
