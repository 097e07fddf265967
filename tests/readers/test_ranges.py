"""Objects are read by the ranges that their readers name: as units of the cache if they are large, else as a whole."""

import os
from pathlib import Path

import pytest

from penstock.readers.ranges import WHOLE_BYTES, Ranges, Search
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.prefetch import Prefetcher
from penstock.store.extents import Extent, Unit
from penstock.store.local import LocalStore
from tests.store.folder_remote import FolderRemote

PART = 1 << 16
LARGE = os.urandom(WHOLE_BYTES + 100_000)
SMALL = LARGE[:5_000]


@pytest.fixture
def remote(tmp_path: Path) -> FolderRemote:
    remote = FolderRemote(tmp_path / "bucket")
    remote.put("large", LARGE)
    remote.put("small", SMALL)
    return remote


@pytest.fixture
def cached(tmp_path: Path, remote: FolderRemote) -> Ranges:
    store = CachedStore(remote, NodeCache(tmp_path / "cache", 10**7, part_bytes=PART, patience=0))
    return Ranges(lambda: store)


@pytest.fixture
def local(tmp_path: Path, remote: FolderRemote) -> Ranges:
    return Ranges(lambda: LocalStore(tmp_path / "bucket"))


def last_byte_of_first(size: int) -> Search[bytes]:
    """A search in two steps: the first byte says where the second lies."""
    first = yield (0, 1)
    second = yield (size - 1 - first[0], size - first[0])
    return bytes(first) + bytes(second)


FOUND = LARGE[:1] + LARGE[len(LARGE) - 1 - LARGE[0] : len(LARGE) - LARGE[0]]


def test_a_large_object_is_read_by_ranges_and_only_the_parts_that_are_read_are_fetched(
    cached: Ranges, remote: FolderRemote
) -> None:
    within = (300_000, 700_000)
    assert cached.read("large", within, len(LARGE), 300_100, 300_200) == LARGE[300_100:300_200]
    assert remote.gets == [("large", 300_000, 300_000 + PART)]
    assert cached.unit("large", within, len(LARGE)) == Unit(cached.open_store(), "large", within)
    assert cached.extent("large", within, len(LARGE), 300_100, 300_200) == Extent(
        Unit(cached.open_store(), "large", within), 100, 200
    )


def test_a_small_object_is_one_unit(cached: Ranges, remote: FolderRemote) -> None:
    assert cached.read("small", (1_000, 2_000), len(SMALL), 1_500, 1_600) == SMALL[1_500:1_600]
    assert remote.gets == [("small", 0, len(SMALL))]
    extent = cached.extent("small", (1_000, 2_000), len(SMALL), 1_500, 1_600)
    assert extent == Extent(Unit(cached.open_store(), "small", None), 1_500, 1_600)


def test_a_local_file_is_read_in_place(local: Ranges) -> None:
    assert local.read("large", (300_000, 700_000), len(LARGE), 300_100, 300_200) == LARGE[300_100:300_200]
    assert local.extent("large", (300_000, 700_000), len(LARGE), 300_100, 300_200).unit.within is None
    assert local.size("large") == local.known_size("large") == len(LARGE)


def test_an_object_of_another_size_than_the_one_that_was_learnt_is_not_read(local: Ranges, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="has 1,148,576 bytes and had 1,148,575"):
        local.read("large", (0, 10), len(LARGE) - 1, 0, 10)


def test_no_bytes_are_read_for_an_empty_range(cached: Ranges, remote: FolderRemote) -> None:
    remote.put("empty", b"")
    assert cached.read("empty", (0, 0), 0, 0, 0) == b""


def test_a_search_that_may_wait_finds_what_it_seeks(cached: Ranges, local: Ranges) -> None:
    assert cached.follow("large", last_byte_of_first) == local.follow("large", last_byte_of_first) == FOUND


def test_a_search_that_may_not_wait_names_the_bytes_it_has_to_see_until_they_are_here(
    cached: Ranges, remote: FolderRemote
) -> None:
    prefetcher = Prefetcher(cached.open_store().cache)
    asked: list[Extent] = []
    while True:
        before = len(remote.gets) + len(remote.heads)
        found = cached.follow_if_here("large", last_byte_of_first)
        assert len(remote.gets) + len(remote.heads) == before, "the search itself asks nobody"
        if not isinstance(found, Extent):
            break
        asked.append(found)
        prefetcher.want([found])
        prefetcher.drain()
    prefetcher.close()
    assert found == FOUND
    place = len(LARGE) - 1 - LARGE[0]
    assert remote.heads == ["large"] and len(asked) == 3, "first of all it has to know the size"
    assert remote.gets == [("large", 0, 1), ("large", place, place + 1)]


def test_a_search_in_a_local_file_never_has_to_wait(local: Ranges) -> None:
    assert local.follow_if_here("large", last_byte_of_first) == FOUND


def test_the_version_of_an_object_is_known_once_it_was_asked_for(cached: Ranges, remote: FolderRemote) -> None:
    assert cached.known_size("large") is None and cached.known_version("large") is None and remote.heads == []
    assert cached.size("large") == len(LARGE)
    version = cached.object_version("large")
    assert cached.known_version("large") == version and version.path == "large"
    assert remote.heads == ["large"]
