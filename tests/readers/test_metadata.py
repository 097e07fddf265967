"""Metadata is searched for once: it stays in memory and on disk, even after the object was evicted."""

import os
from pathlib import Path

import pytest

from penstock.readers.metadata import MetadataFinder, MetadataKind
from penstock.readers.ranges import WHOLE_BYTES, Ranges, Search
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.extents import Extent
from tests.store.folder_remote import FolderRemote

DATA = b"name" + os.urandom(WHOLE_BYTES)


def search(size: int) -> Search[str]:
    return bytes((yield (0, 4))).decode("ascii")


NAME = MetadataKind("name 1", search, str.encode, lambda data: bytes(data).decode())


@pytest.fixture
def remote(tmp_path: Path) -> FolderRemote:
    remote = FolderRemote(tmp_path / "bucket")
    remote.put("a", DATA)
    return remote


def finder(tmp_path: Path, remote: FolderRemote, cache: str = "cache") -> MetadataFinder[str]:
    store = CachedStore(remote, NodeCache(tmp_path / cache, 10**7, patience=0))
    return MetadataFinder(NAME, Ranges(lambda: store), tmp_path / "metadata", 4)


def test_it_is_searched_for_once(tmp_path: Path, remote: FolderRemote) -> None:
    names = finder(tmp_path, remote)
    assert [names.get("a") for _ in range(3)] == ["name"] * 3
    assert remote.gets == [("a", 0, 4)]


def test_another_process_finds_it_on_disk_with_another_node_cache(tmp_path: Path, remote: FolderRemote) -> None:
    assert finder(tmp_path, remote).get("a") == "name"
    remote.gets.clear()
    assert finder(tmp_path, remote, "another").get("a") == "name"
    assert remote.gets == []


def test_who_may_not_wait_gets_the_bytes_to_fetch_and_then_the_result(tmp_path: Path, remote: FolderRemote) -> None:
    finder(tmp_path, remote).get("a")
    other = finder(tmp_path, remote, "another")
    first = other.get_if_here("a")
    assert isinstance(first, Extent) and remote.gets == [("a", 0, 4)], "its version is not known yet"
    assert isinstance(first.unit.store, CachedStore)
    first.unit.store.resolve_size("a")
    assert other.get_if_here("a") == "name"
    assert other.get("a") == "name" and remote.gets == [("a", 0, 4)]


def test_of_another_version_of_the_object_nothing_is_known(tmp_path: Path, remote: FolderRemote) -> None:
    assert finder(tmp_path, remote).get("a") == "name"
    remote.put("a", b"next" + DATA[4:])
    assert finder(tmp_path, remote).get("a") == "next"


def test_what_can_not_be_found_is_not_kept(tmp_path: Path, remote: FolderRemote) -> None:
    remote.put("a", b"\xff" + DATA)
    names = finder(tmp_path, remote)
    for _ in range(2):
        with pytest.raises(UnicodeDecodeError):
            names.get("a")
    assert not list(tmp_path.glob("metadata/*.learnt"))


def test_a_folder_that_can_not_be_written_costs_nothing_but_the_search(tmp_path: Path, remote: FolderRemote) -> None:
    (tmp_path / "metadata").write_text("a file where the folder should be")
    assert finder(tmp_path, remote).get("a") == "name"
