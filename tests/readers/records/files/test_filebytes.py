"""Compressed files are unpacked from the beginning on, as far as somebody reads, and no byte is wrong."""

import gzip
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.readers.errors import ContentError
from penstock.readers.ranges import Ranges
from penstock.readers.records.files import filebytes
from penstock.readers.records.files.filebytes import FileUnpacker, UnpackedBytes, UnpackedFiles
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.derived import DerivedStore
from penstock.store.local import LocalStore

MIB = 1 << 20
NOISE = np.random.default_rng(0).integers(0, 4, 9 * MIB + 7, dtype=np.uint8).tobytes()
SIZES = [0, 1, MIB - 1, MIB, MIB + 1, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 8 * MIB, len(NOISE)]


def unpacked(folder: Path, name: str, cache_bytes: int = 100 * MIB) -> UnpackedBytes:
    store = LocalStore(folder)
    cache = NodeCache(folder / "cache", cache_bytes)
    files = UnpackedFiles(Ranges(lambda: store), partial(DerivedStore, store, cache=cache), folder / "metadata")
    return files.open(name)


def pieces(folder: Path) -> int:
    return len(list((folder / "cache").rglob("*.data")))


@pytest.mark.parametrize("size", SIZES)
def test_the_content_ends_where_it_ends(size: int, tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(NOISE[:size], 1))
    asked = unpacked(tmp_path, "a.gz")
    for end in (1, MIB, MIB + 1, 2 * MIB, 4 * MIB + 1, 20 * MIB):
        assert asked.upto(end) == min(end, size)
    assert asked.size() == unpacked(tmp_path, "a.gz").size() == size
    assert asked.read(0, size).tobytes() == NOISE[:size]


def test_no_more_is_unpacked_than_twice_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.zst").write_bytes(bytes(pa.Codec("zstd").compress(NOISE)))
    asked = unpacked(tmp_path, "a.zst")
    for end, made in ((1, 1), (MIB, 1), (MIB + 1, 2), (2 * MIB + 1, 4), (4 * MIB + 1, 5), (8 * MIB + 1, 6)):
        assert asked.read(end - 1, end).tobytes() == NOISE[end - 1 : end]
        assert pieces(tmp_path) == made


def test_the_size_is_known_from_pieces_that_are_here(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(NOISE[: 3 * MIB], 1))
    assert unpacked(tmp_path, "a.gz").size() == 3 * MIB
    for noted in (tmp_path / "metadata").iterdir():
        noted.unlink()
    assert unpacked(tmp_path, "a.gz").upto(2 * MIB + 1) == 2 * MIB + 1
    assert unpacked(tmp_path, "a.gz").size() == 3 * MIB


def test_content_that_is_larger_than_the_cache_is_unpacked_a_part_of_the_cache_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = NOISE * 12  # 108 MiB: 27 pieces
    (tmp_path / "a.zst").write_bytes(bytes(pa.Codec("zstd").compress(content)))
    asked = unpacked(tmp_path, "a.zst", 32 * MIB)
    made = []
    make = FileUnpacker.make
    monkeypatch.setattr(FileUnpacker, "make", lambda *input: made.append(input) or make(*input))
    for start in range(0, len(content), MIB):
        end = min(start + MIB, len(content))
        assert asked.upto(end) == end
        assert asked.read(start, end).tobytes() == content[start:end]
    assert len(made) <= 20, "not once per piece"


@pytest.mark.parametrize("name", ["a.zst", "a.gz"])
def test_a_small_file_with_far_too_much_in_it_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pack(data: bytes, level: int = 9) -> bytes:
        return gzip.compress(data, level) if name == "a.gz" else bytes(pa.Codec("zstd").compress(data))

    monkeypatch.setattr(filebytes, "_BOMB_BYTES", 8 * MIB)
    (tmp_path / name).write_bytes(pack(b" " * 50 * MIB))
    with pytest.raises(ContentError, match=r"its [\d,]+ bytes unpack to more than 8 MiB and 1,000 times as many"):
        unpacked(tmp_path, name).size()
    (tmp_path / name).write_bytes(pack(NOISE + b" " * 9 * MIB, level=1))
    assert unpacked(tmp_path, name).size() == len(NOISE) + 9 * MIB
