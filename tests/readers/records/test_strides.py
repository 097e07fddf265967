"""Compressed files are unpacked from the beginning on, as far as somebody reads, and no byte is wrong."""

import gzip
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.readers.ranges import Ranges
from penstock.readers.records.strides import Unpacked
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.derived import DerivedStore
from penstock.store.local import LocalStore

MIB = 1 << 20
NOISE = np.random.default_rng(0).integers(0, 4, 9 * MIB + 7, dtype=np.uint8).tobytes()
SIZES = [0, 1, MIB - 1, MIB, MIB + 1, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 8 * MIB, len(NOISE)]


def unpacked(folder: Path) -> Unpacked:
    store = LocalStore(folder)
    cache = NodeCache(folder / "cache", 100 * MIB)
    return Unpacked(Ranges(lambda: store), partial(DerivedStore, store, cache=cache), folder / "shelf")


def pieces(folder: Path) -> int:
    return len(list((folder / "cache").rglob("*.data")))


@pytest.mark.parametrize("size", SIZES)
def test_the_content_ends_where_it_ends(size: int, tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(NOISE[:size], 1))
    asked = unpacked(tmp_path)
    for end in (1, MIB, MIB + 1, 2 * MIB, 4 * MIB + 1, 20 * MIB):
        assert asked.upto("a.gz", end) == min(end, size)
    assert asked.size("a.gz") == unpacked(tmp_path).size("a.gz") == size
    assert asked.read("a.gz", 0, size).tobytes() == NOISE[:size]


def test_no_more_is_unpacked_than_twice_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.zst").write_bytes(bytes(pa.Codec("zstd").compress(NOISE)))
    asked = unpacked(tmp_path)
    for end, made in ((1, 1), (MIB, 1), (MIB + 1, 2), (2 * MIB + 1, 4), (4 * MIB + 1, 5), (8 * MIB + 1, 6)):
        assert asked.read("a.zst", end - 1, end).tobytes() == NOISE[end - 1 : end]
        assert pieces(tmp_path) == made


def test_the_size_is_known_from_pieces_that_are_here(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(NOISE[: 3 * MIB], 1))
    assert unpacked(tmp_path).size("a.gz") == 3 * MIB
    for noted in (tmp_path / "shelf").iterdir():
        noted.unlink()
    assert unpacked(tmp_path).upto("a.gz", 2 * MIB + 1) == 2 * MIB + 1
    assert unpacked(tmp_path).size("a.gz") == 3 * MIB
