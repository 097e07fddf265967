"""Small files that would fill the memory are refused, or read some rows at a time; others are read as ever."""

import io
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.readers.errors import ContentError
from penstock.readers.parquet import memory
from penstock.readers.parquet.footer import NotParquet
from penstock.readers.records.files.kinds import RecordFiles
from penstock.readers.records.files.recordfile import RecordFile
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.derived import DerivedStore
from penstock.store.local import LocalStore

MIB = 1 << 20


def written(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", **options)
    return sink.getvalue()


def refuse(data: bytes, columns: list[str] | None = None) -> None:
    memory.refuse_bomb(pq.read_metadata(io.BytesIO(data)), len(data), 0, columns, lambda start, end: data[start:end])


@pytest.fixture
def small_bombs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Megabytes count as gigabytes do."""
    monkeypatch.setattr(memory, "_BOMB_BYTES", 4 * MIB)


ZEROS = np.zeros(MIB, np.int64)
BOMBS = {
    "many rows of one value": pa.table({"zeros": ZEROS, "one": ZEROS}),
    "a row of many values": pa.table({"one": [1], "zeros": pa.ListArray.from_arrays([0, MIB], ZEROS)}),
    "a long text": pa.table({"one": [1], "zeros": [" " * 8 * MIB]}),
    "rows that share a text": pa.table({"zeros": ["x" * 10_000] * 1_000, "one": [1] * 1_000}),
    "a row of texts that are all alike": pa.table({"one": [1], "zeros": [["x" * 10_000] * 1_000]}),
}


@pytest.mark.usefixtures("small_bombs")
@pytest.mark.parametrize("table", BOMBS.values(), ids=BOMBS)
def test_far_more_values_than_bytes_are_refused(table: pa.Table) -> None:
    data = written(table)
    with pytest.raises(NotParquet, match=r"row group 0 is said to take 0\.\d GB in memory .* has [\d,]+ bytes"):
        refuse(data)


@pytest.mark.usefixtures("small_bombs")
def test_columns_that_are_not_read_are_not_counted() -> None:
    data = written(BOMBS["a long text"])
    refuse(data, ["one"])
    with pytest.raises(NotParquet):
        refuse(data, ["zeros"])


@pytest.mark.usefixtures("small_bombs")
def test_data_that_somebody_learns_from_are_read() -> None:
    draws = np.random.default_rng(0)
    ids = pa.FixedSizeListArray.from_arrays(draws.integers(0, 50_000, MIB), 1_024)
    ones = pa.FixedSizeListArray.from_arrays(np.ones(MIB, np.int64), 1_024)
    refuse(written(pa.table({"input_ids": ids, "attention_mask": ones})))
    refuse(written(pa.table({"text": [draws.bytes(50).hex() for _ in range(100_000)]})))
    names = [f"a source with a long name {number}" for number in draws.integers(0, 1_000, 100_000)]
    refuse(written(pa.table({"source": names, "text": [draws.bytes(50).hex() for _ in names]})))
    refuse(written(pa.table({"source": names}), write_page_checksum=True))


def opened(path: Path) -> RecordFile:
    store = LocalStore(path.parent)
    cache = NodeCache(path.parent / "cache", 4 << 30)
    return RecordFiles(lambda: store, partial(DerivedStore, store, cache=cache), path.parent / "metadata").open(
        path.name
    )


def test_one_long_text_in_many_rows_is_read_some_rows_at_a_time(tmp_path: Path) -> None:
    longs = pa.DictionaryArray.from_arrays(np.zeros(1_000, np.int32), ["x" * MIB]).cast(pa.string())
    path = tmp_path / "long.parquet"
    path.write_bytes(written(pa.table({"text": longs, "number": range(1_000)}), dictionary_pagesize_limit=1 << 30))
    assert path.stat().st_size < 10_000
    del longs
    before = pa.total_allocated_bytes()
    most = 0
    for number, record in enumerate(opened(path).records(np.array([[0, row] for row in range(1_000)]), ())):
        assert isinstance(record, dict) and record["number"] == number and len(record["text"]) == MIB
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 400 * MIB


def test_a_piece_of_more_than_a_gibibyte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "long.parquet"
    longs = pa.DictionaryArray.from_arrays(np.zeros(1_100, np.int32), ["x" * MIB]).cast(pa.string())
    others = [np.random.default_rng(row).bytes(4_096) for row in range(1_100)]  # the file is large enough to be honest
    path.write_bytes(written(pa.table({"text": longs, "other": others}), dictionary_pagesize_limit=1 << 30))
    del longs
    with pytest.raises(
        ContentError, match=r"row group 0: its rows 0 to 1,0\d\d take more than 1,024 MiB .* smaller row"
    ):
        opened(path).load((0, 0))


READ = """
import re, sys
from pathlib import Path
from penstock.readers.errors import ContentError
from tests.readers.parquet.test_memory import opened
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
file = opened(Path(sys.argv[1]))
before = peak()
try:
    file.segment(0, 0)
except ContentError as error:
    print(error)
print(peak() - before >> 10)
"""


def test_a_row_group_of_too_many_rows_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(written(pa.table({"zeros": np.zeros((64 << 20), np.int8)}), row_group_size=64 << 20))
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)], cwd=root, env=os.environ, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    *said, megabytes = done.stdout.splitlines()
    assert "is said to take 1.3 GB in memory (67,108,864 rows)" in said[0]
    assert int(megabytes) < 400
