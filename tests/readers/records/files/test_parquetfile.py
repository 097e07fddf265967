"""Parquet files in a bucket: their index takes few requests, several at a time, and no bytes of media."""

import gc
import gzip
import io
import threading
import weakref
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.readers.ranges import WHOLE_BYTES
from penstock.readers.records.files.kinds import RecordFiles
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.derived import DerivedStore
from tests.store.folder_remote import FolderRemote

ROWS = 300
GROUP = 20
TOGETHER = 4  # requests


@pytest.fixture(scope="module")
def data() -> bytes:
    rng = np.random.default_rng(0)
    rows = [
        {"id": str(number), "image": {"bytes": rng.bytes(8_000), "path": None}, "text": "words " * 9, "score": number}
        for number in range(ROWS)
    ]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=GROUP)
    return sink.getvalue()


def test_an_index_of_media_takes_few_requests_several_at_a_time(data: bytes, tmp_path: Path) -> None:
    together = threading.Barrier(TOGETHER)
    asked = 0

    def before_get(start: int, end: int) -> None:
        nonlocal asked
        asked += 1
        if 1 < asked <= 1 + TOGETHER:  # after the footer
            together.wait(timeout=30)

    remote = FolderRemote(tmp_path / "bucket", before_get)
    remote.put("rows.parquet", data)
    cache = NodeCache(tmp_path / "cache", 1 << 30)
    store = CachedStore(remote, cache)
    files = RecordFiles(lambda: store, lambda maker: DerivedStore(store, maker, cache), tmp_path / "metadata")
    file = files.open("rows.parquet")
    found = list(file.records(file.segment(0, 0).places, ("image",)))
    assert [record["score"] for record in found if isinstance(record, dict)] == list(range(ROWS))
    assert not together.broken
    groups = ROWS // GROUP
    assert len(remote.gets) <= 1 + 2 * groups, "of each row group what lies before the images, and behind them"
    assert sum(end - start for _, start, end in remote.gets) < len(data) / 10
    files.close()
    cache.close()


def test_row_groups_at_the_end_of_a_file_are_read_from_the_end_that_is_here(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [{"text": rng.bytes(700).hex(), "score": number} for number in range(1_000)]
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, pa.Table.from_pylist(rows).schema) as writer:
        writer.write_table(pa.Table.from_pylist(rows[:960]), row_group_size=960)
        writer.write_table(pa.Table.from_pylist(rows[960:]), row_group_size=4)
    remote = FolderRemote(tmp_path / "bucket")
    remote.put("rows.parquet", sink.getvalue())
    assert len(sink.getvalue()) > WHOLE_BYTES
    cache = NodeCache(tmp_path / "cache", 1 << 30)
    store = CachedStore(remote, cache)
    files = RecordFiles(lambda: store, lambda maker: DerivedStore(store, maker, cache), tmp_path / "metadata")
    file = files.open("rows.parquet")
    found = list(file.records(file.segment(0, 0).places, ()))
    assert [record["score"] for record in found if isinstance(record, dict)] == list(range(1_000))
    assert sum(end - start for _, start, end in remote.gets) <= len(sink.getvalue())
    files.close()
    cache.close()


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl.gz"])
def test_dropped_files_are_freed_with_their_pins_at_once(name: str, data: bytes, tmp_path: Path) -> None:
    remote = FolderRemote(tmp_path / "bucket")
    remote.put(name, data if name.endswith("parquet") else gzip.compress(b'{"id": 1}\n'))
    cache = NodeCache(tmp_path / "cache", 1 << 30)
    store = CachedStore(remote, cache)
    files = RecordFiles(lambda: store, lambda maker: DerivedStore(store, maker, cache), tmp_path / "metadata")
    file = files.open(name)
    first, second = file.segment(0, 0).places[0].tolist()
    file.load((first, second))
    shared = files.parquet_files() if name.endswith("parquet") else files.unpacked_files()
    left = weakref.ref(shared)
    gc.disable()
    try:
        del files, file, shared
        assert left() is None
    finally:
        gc.enable()
    cache.close()
