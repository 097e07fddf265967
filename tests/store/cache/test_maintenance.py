"""Looking after a cache by hand: every kind of ETag that is a hash is compared with the bytes."""

import os
from pathlib import Path

import pytest

from penstock.store.cache import maintenance
from penstock.store.cache.cache import NodeCache
from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectInfo
from tests.servers.hub import Hub
from tests.store.folder_remote import FolderRemote, open_in


def damage(cache: NodeCache, name: str) -> str:
    (path,) = cache.root.rglob(f"{name}~*.data")
    with path.open("r+b") as file:
        first = file.read(1)
        file.seek(0)
        file.write(bytes([first[0] ^ 1]))
    return str(path)


@pytest.mark.parametrize("name", ["large.tar", "small.json"])
def test_the_hubs_hashes_are_checked_too(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    cache = NodeCache(tmp_path / "cache", 10**9)
    with Hub("org/name", {"large.tar": os.urandom(5_000), "small.json": b"{}"}) as hub:
        remote = open_remote("hf://datasets/org/name", StoreOptions(endpoint=hub.url))
        assert len(remote.head(name).etag) == {"large.tar": 64, "small.json": 40}[name]
        for key, _ in remote.list():
            open_in(cache, remote, key).fetch_whole()
    assert maintenance.verify(cache) == maintenance.VerifyResult(2, 0, 0, ())
    damaged = damage(cache, name)
    assert maintenance.verify(cache) == maintenance.VerifyResult(1, 0, 0, (damaged,))


def test_what_is_not_whole_cannot_be_checked_and_progress_ends_with_all_bytes(tmp_path: Path) -> None:
    remote = FolderRemote(tmp_path / "bucket")
    cache = NodeCache(tmp_path / "cache", 10**9, part_bytes=1_000)
    for key, size in {"part": 5_000, "whole": 3_000}.items():
        remote.put(key, os.urandom(size))
    open_in(cache, remote, "part").fetch((0, 1))
    open_in(cache, remote, "whole").fetch_whole()
    seen: list[tuple[int, int]] = []
    assert maintenance.verify(cache, lambda done, total: seen.append((done, total))) == maintenance.VerifyResult(
        1, 1, 0, ()
    )
    assert seen == sorted(seen) and seen[0] == (0, 8_000) and seen[-1] == (8_000, 8_000)


def test_a_version_too_long_for_a_file_name_is_not_taken_for_a_hash(tmp_path: Path) -> None:
    remote = FolderRemote(tmp_path / "bucket")
    remote.put("a", b"a" * 2_000)
    cache = NodeCache(tmp_path / "cache", 10**6)

    class LongVersions(FolderRemote):
        def info(self, key: str) -> ObjectInfo:
            return ObjectInfo(super().info(key).size, "v" * 200)

    open_in(cache, LongVersions(tmp_path / "bucket"), "a").fetch_whole()
    verdict = maintenance.verify(cache)
    assert verdict.bad == ()
    assert verdict.unchecked == 1
