"""A range of a large object is an entry of its own: reserved, fetched, pinned and evicted like an object."""

import os
from pathlib import Path

import pytest

from penstock.store.cache import maintenance
from penstock.store.cache.blob import CachedBlob
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.paths import object_path
from penstock.store.cache.prefetch import Prefetcher
from penstock.store.extents import Extent, Unit
from penstock.store.local import LocalStore
from tests.store.folder_remote import FolderRemote

PART = 1_000


@pytest.fixture
def remote(tmp_path: Path) -> FolderRemote:
    return FolderRemote(tmp_path / "bucket")


def store_of(tmp_path: Path, remote: FolderRemote, max_bytes: int = 10_000) -> CachedStore:
    return CachedStore(remote, NodeCache(tmp_path / "cache", max_bytes, part_bytes=PART, patience=0))


def read(blob: CachedBlob, start: int, end: int) -> bytes:
    buffer = bytearray(end - start)
    blob.readinto(memoryview(buffer), start)
    return bytes(buffer)


def test_a_range_of_an_object_larger_than_the_cache_is_read_and_takes_its_own_length(
    tmp_path: Path, remote: FolderRemote
) -> None:
    data = remote.put("video", os.urandom(1_000_000))
    store = store_of(tmp_path, remote)
    blob = store.open("video", (500_123, 502_623))
    assert blob.size == 2_500
    assert read(blob, 0, 2_500) == data[500_123:502_623]
    assert maintenance.stat(store.cache).reserved == 2_500
    with pytest.raises(EOFError, match=r"bytes 2500\.\.2501 requested"):
        read(blob, 2_500, 2_501)


def test_adjacent_ranges_fetch_no_byte_twice_and_none_between_them(tmp_path: Path, remote: FolderRemote) -> None:
    data = remote.put("video", os.urandom(20_000))
    store = store_of(tmp_path, remote)
    for within in ((1_100, 4_300), (4_300, 7_777)):
        assert read(store.open("video", within), 0, within[1] - within[0]) == data[slice(*within)]
    asked = sorted(span for _, *span in remote.gets)
    assert [start for start, _ in asked] == [1_100, *(end for _, end in asked[:-1])]
    assert asked[-1][1] == 7_777


def test_ranges_and_the_whole_are_different_entries_and_an_etag_cannot_imitate_a_range() -> None:
    places = {
        object_path("s3://b", "k", version, within)
        for version in ("1", "1@0-5", "1%400-5")
        for within in (None, (0, 5), (0, 50))
    }
    assert len(places) == 9
    assert max(len(place.name.encode()) for place in places) < 255
    long = object_path("s3://b", "k" * 400, "v" * 400, (10**18, 10**18 + 1))
    assert len(long.name.encode()) <= 250


def test_a_range_beyond_the_object_is_refused(tmp_path: Path, remote: FolderRemote) -> None:
    remote.put("video", os.urandom(5_000))
    with pytest.raises(EOFError, match=r"video.*4000\.\.5001 requested, but the file has 5000"):
        store_of(tmp_path, remote).open("video", (4_000, 5_001))


def test_the_prefetcher_fetches_and_pins_ranges_by_themselves(tmp_path: Path, remote: FolderRemote) -> None:
    remote.put("video", os.urandom(100_000))
    store = store_of(tmp_path, remote, max_bytes=5_000)
    first = Unit(store, "video", (10_000, 12_000))
    second = Unit(store, "video", (50_000, 52_500))
    ahead = Prefetcher(store.cache)
    ahead.want([Extent(first, 0), Extent(second, 0, 1_500)])
    ahead.drain()
    assert sorted(remote.gets) == [("video", 10_000, 12_000), ("video", 50_000, 52_000)]
    held = maintenance.stat(store.cache)
    assert (held.reserved, held.pinned, held.complete) == (4_500, 2, 1)
    ahead.want([Extent(second, 0)])
    ahead.drain()
    assert maintenance.stat(store.cache).pinned == 1
    here = store.open_if_here("video", (50_000, 52_500))
    assert here is not None
    assert store.open_if_here("video") is None
    ahead.close()


def test_a_replaced_object_is_an_error_also_for_a_range(tmp_path: Path, remote: FolderRemote) -> None:
    remote.put("video", os.urandom(9_000))
    blob = store_of(tmp_path, remote).open("video", (1_000, 4_000))
    remote.put("video", os.urandom(9_000))
    with pytest.raises(OSError, match="no longer"):
        read(blob, 0, 3_000)


def test_a_range_of_a_local_file_counts_from_its_start(tmp_path: Path) -> None:
    (tmp_path / "video").write_bytes(bytes(range(200)))
    blob = LocalStore(tmp_path).open("video", (50, 60))
    buffer = bytearray(10)
    blob.readinto(memoryview(buffer), 0)
    assert bytes(buffer) == bytes(range(50, 60))
    with pytest.raises(EOFError):
        blob.readinto(memoryview(bytearray(2)), 9)
    with pytest.raises(EOFError):
        LocalStore(tmp_path).open("video", (190, 201))
