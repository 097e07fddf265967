"""What a search found is found once: it is kept in memory and on a shelf, also when the object has left the cache."""

import os
from pathlib import Path

import pytest

from penstock.readers.learnt import Kind, Learnt
from penstock.readers.ranges import WHOLE_BYTES, Ranges, Search
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.extents import Extent
from tests.store.folder_remote import FolderRemote

DATA = b"name" + os.urandom(WHOLE_BYTES)


def search(size: int) -> Search[str]:
    return bytes((yield (0, 4))).decode("ascii")


NAME = Kind("name 1", search, str.encode, lambda data: bytes(data).decode())


@pytest.fixture
def remote(tmp_path: Path) -> FolderRemote:
    remote = FolderRemote(tmp_path / "bucket")
    remote.put("a", DATA)
    return remote


def learnt(tmp_path: Path, remote: FolderRemote, cache: str = "cache") -> Learnt[str]:
    store = CachedStore(remote, NodeCache(tmp_path / cache, 10**7, patience=0))
    return Learnt(NAME, Ranges(lambda: store), tmp_path / "shelf", 4)


def test_it_is_searched_for_once(tmp_path: Path, remote: FolderRemote) -> None:
    names = learnt(tmp_path, remote)
    assert [names.get("a") for _ in range(3)] == ["name"] * 3
    assert remote.gets == [("a", 0, 4)]


def test_another_process_finds_it_on_the_shelf_with_another_cache(tmp_path: Path, remote: FolderRemote) -> None:
    assert learnt(tmp_path, remote).get("a") == "name"
    remote.gets.clear()
    assert learnt(tmp_path, remote, "another").get("a") == "name"
    assert remote.gets == []


def test_who_may_not_wait_gets_the_bytes_to_fetch_and_then_the_result(tmp_path: Path, remote: FolderRemote) -> None:
    learnt(tmp_path, remote).get("a")
    other = learnt(tmp_path, remote, "another")
    first = other.get_if_here("a")
    assert isinstance(first, Extent) and remote.gets == [("a", 0, 4)], "its version is not known yet"
    assert isinstance(first.unit.store, CachedStore)
    first.unit.store.learn("a")
    assert other.get_if_here("a") == "name"
    assert other.get("a") == "name" and remote.gets == [("a", 0, 4)]


def test_of_another_version_of_the_object_nothing_is_known(tmp_path: Path, remote: FolderRemote) -> None:
    assert learnt(tmp_path, remote).get("a") == "name"
    remote.put("a", b"next" + DATA[4:])
    assert learnt(tmp_path, remote).get("a") == "next"


def test_what_can_not_be_found_is_not_kept(tmp_path: Path, remote: FolderRemote) -> None:
    remote.put("a", b"\xff" + DATA)
    names = learnt(tmp_path, remote)
    for _ in range(2):
        with pytest.raises(UnicodeDecodeError):
            names.get("a")
    assert not list(tmp_path.glob("shelf/*.learnt"))


def test_a_shelf_that_can_not_be_written_costs_nothing_but_the_search(tmp_path: Path, remote: FolderRemote) -> None:
    (tmp_path / "shelf").write_text("a file where the folder should be")
    assert learnt(tmp_path, remote).get("a") == "name"
