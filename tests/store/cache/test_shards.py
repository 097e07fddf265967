"""Shards as files: whole, kept while held, and the least recently used leave first."""

import os
from pathlib import Path

import pytest

from penstock.store.cache.shards import ShardCache
from tests.conftest import S3Prefix
from tests.store.folder_remote import FolderRemote

GB = 1024**3


@pytest.fixture
def remote(tmp_path: Path) -> FolderRemote:
    remote = FolderRemote(tmp_path / "bucket")
    for key in "abcd":
        remote.put(f"manifests/{key}.tar", os.urandom(3_000_000))
    return remote


def test_a_shard_is_a_whole_file_at_a_path_that_reads_like_its_key(tmp_path: Path, remote: FolderRemote) -> None:
    cache = ShardCache(tmp_path / "cache", remote=remote)
    path = cache.get_shard("manifests/a.tar")
    assert isinstance(path, Path) and "manifests/a.tar" in str(path)
    assert path.read_bytes() == (remote.folder / "manifests" / "a.tar").read_bytes()
    assert cache.get_shard("manifests/a.tar") == path
    assert sum(end - start for _, start, end in remote.gets) == 3_000_000
    cache.close()


def test_a_shard_stays_while_its_path_is_held(tmp_path: Path, remote: FolderRemote) -> None:
    cache = ShardCache(tmp_path / "cache", max_size_gb=6_500_000 / GB, remote=remote)
    held = cache.get_shard("manifests/a.tar")
    for key in "bcd":
        cache.get_shard(f"manifests/{key}.tar")
        assert held.exists()
    held.release()
    cache.get_shard("manifests/b.tar")
    cache.get_shard("manifests/c.tar")
    assert not held.exists()
    cache.close()


def test_with_ends_the_hold_and_other_paths_made_from_it_do_not_hold(tmp_path: Path, remote: FolderRemote) -> None:
    cache = ShardCache(tmp_path / "cache", max_size_gb=3_500_000 / GB, remote=remote)
    with cache.get_shard("manifests/a.tar") as path:
        assert (path.parent / path.name).exists()
    cache.get_shard("manifests/b.tar")
    assert not path.exists()
    cache.close()


def test_a_key_that_is_no_url_needs_a_remote(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"give ShardCache a remote=, or keys like s3://bucket/manifests/a.tar"):
        ShardCache(tmp_path / "cache").get_shard("manifests/a.tar")


def test_a_local_shard_is_its_own_file_and_never_copied(tmp_path: Path) -> None:
    shard = tmp_path / "a shard.tar"
    shard.write_bytes(b"local")
    cache = ShardCache(tmp_path / "cache")
    with cache.get_shard(shard.as_uri()) as path:
        assert path == shard and path.read_bytes() == b"local"
    assert shard.exists() and not list((tmp_path / "cache").rglob("*.data"))
    with pytest.raises(FileNotFoundError, match="no such file"):
        cache.get_shard((tmp_path / "b.tar").as_uri())
    cache.close()


def test_a_url_is_reached_by_the_options_given(tmp_path: Path, s3: S3Prefix) -> None:
    s3.put("telugu/a.tar", b"remote")
    cache = ShardCache(tmp_path / "cache", options=s3.options)
    assert cache.get_shard(f"{s3.url}/telugu/a.tar").read_bytes() == b"remote"
    cache.close()
