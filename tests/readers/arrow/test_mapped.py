"""Tables as pieces of the node cache: cut to size, mapped once, valid for as long as they are held."""

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.readers.arrow.mapped import MappedTables
from penstock.readers.parquet.unpack import cut, table_bytes
from penstock.store.blob import ByteRange
from penstock.store.cache import maintenance
from penstock.store.cache.blob import CachedBlob
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.derived import DerivedStore, Maker, Piece, piece_path
from penstock.store.local import LocalStore

ROWS = 10_000


class Numbers(Maker):
    """Makes three pieces of an input: tables of its bytes, plus the number of the piece."""

    name = "numbers-1"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = 0

    def make(self, path: str, within: ByteRange | None) -> Iterator[Piece]:
        start, end = within or (0, ROWS)
        data = np.frombuffer((self.folder / path).read_bytes()[start:end], np.uint8).astype(np.int64)
        for number in range(3):
            self.made += 1
            yield table_bytes(pa.table({"value": data + number}))

    def expected_size(self, path: str, within: ByteRange | None, number: int) -> int:
        return 8 * ROWS


@pytest.fixture
def maker(tmp_path: Path) -> Numbers:
    (tmp_path / "input").write_bytes(os.urandom(ROWS))
    return Numbers(tmp_path)


def store_of(maker: Numbers, tmp_path: Path, size: int = 10**7) -> DerivedStore:
    return DerivedStore(LocalStore(tmp_path), maker, NodeCache(tmp_path / "cache", size, patience=0))


def tables_of(maker: Numbers, tmp_path: Path) -> MappedTables:
    store = store_of(maker, tmp_path)
    return MappedTables(lambda: store)


def values(maker: Numbers, number: int) -> list[int]:
    return [byte + number for byte in (maker.folder / "input").read_bytes()]


@given(st.lists(st.integers(0, 7), max_size=10), st.integers(1, 9))
def test_batches_of_any_size_are_cut_into_tables_of_one_size(sizes: list[int], rows: int) -> None:
    ends = np.cumsum([0, *sizes])
    batches = [pa.record_batch({"n": np.arange(a, b)}) for a, b in itertools.pairwise(ends)]
    tables = list(cut(iter(batches), rows))
    assert [table.num_rows for table in tables[:-1]] == [rows] * len(tables[:-1])
    assert all(0 < table.num_rows <= rows for table in tables)
    assert [n for table in tables for n in table.column("n").to_pylist()] == list(range(ends[-1]))


def test_a_piece_is_made_once_and_mapped_once(maker: Numbers, tmp_path: Path) -> None:
    pieces = tables_of(maker, tmp_path)
    table = pieces.table(piece_path("input", 1), None)
    assert table.column("value").to_pylist() == values(maker, 1)
    assert pieces.table(piece_path("input", 1), None) is table
    assert pieces.table(piece_path("input", 2), None).column("value").to_pylist() == values(maker, 2)
    other = tables_of(maker, tmp_path)
    assert other.table(piece_path("input", 0), None).column("value").to_pylist() == values(maker, 0)
    assert maker.made == 3


def test_a_table_outlives_its_place_in_the_cache(maker: Numbers, tmp_path: Path) -> None:
    store = store_of(maker, tmp_path)
    pieces = MappedTables(lambda: store)
    table = pieces.table(piece_path("input", 1), None)
    pieces.close()
    maintenance.clear(store.cache)
    assert maintenance.stat(store.cache).reserved == 0
    assert table.column("value").to_pylist() == values(maker, 1)
    again = pieces.table(piece_path("input", 1), None)
    assert again is not table and again == table


def test_ranges_of_an_input_have_pieces_of_their_own(maker: Numbers, tmp_path: Path) -> None:
    pieces = tables_of(maker, tmp_path)
    found = pieces.table(piece_path("input", 2), (10, 20)).column("value").to_pylist()
    assert found == values(maker, 2)[10:20]


def test_a_forked_child_maps_pieces_for_itself(maker: Numbers, tmp_path: Path) -> None:
    pieces = tables_of(maker, tmp_path)
    table = pieces.table(piece_path("input", 1), None)
    if not (child := os.fork()):
        own = pieces.table(piece_path("input", 1), None)
        os._exit(0 if own == table and own is not table else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_piece_that_is_pinned_is_mapped_also_when_the_cache_is_removed(maker: Numbers, tmp_path: Path) -> None:
    pieces = tables_of(maker, tmp_path)
    blob = pieces._blobs.get(piece_path("input", 1))
    assert isinstance(blob, CachedBlob) and not blob.missing(0, blob.size)
    shutil.rmtree(tmp_path / "cache")
    assert pieces.table(piece_path("input", 1), None).column("value").to_pylist() == values(maker, 1)
