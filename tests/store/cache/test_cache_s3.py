"""The node cache over a real S3 server: changed and cut objects are met as errors, warm starts make no request."""

import os
from pathlib import Path

import pytest

from penstock.store.cache.blob import CachedBlob
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.shards import ShardCache
from penstock.store.remote.remote import ObjectChanged, ObjectMissing
from tests.conftest import S3Prefix
from tests.servers.faultproxy import FaultProxy, Rule
from tests.store.folder_remote import open_in

PART = 1 << 16


def cache_of(tmp_path: Path) -> NodeCache:
    return NodeCache(tmp_path / "cache", 64 << 20, part_bytes=PART)


def read(blob: CachedBlob, start: int, end: int) -> bytes:
    buffer = bytearray(end - start)
    blob.readinto(memoryview(buffer), start)
    return bytes(buffer)


def test_an_object_replaced_between_two_ranges_is_never_mixed(s3: S3Prefix, tmp_path: Path) -> None:
    old, new = os.urandom(5 * PART), os.urandom(5 * PART)
    s3.put("a", old)
    store = CachedStore(s3.remote(), cache_of(tmp_path))
    blob = store.open("a")
    assert read(blob, 0, PART) == old[:PART]
    s3.put("a", new)
    with pytest.raises(ObjectChanged, match="/a"):
        read(blob, 0, 2 * PART)
    assert read(blob, 0, PART) == old[:PART]
    fresh = CachedStore(s3.remote(), store.cache).open("a")
    assert read(fresh, 0, 5 * PART) == new


def test_an_object_that_shrank_is_detected(s3: S3Prefix, tmp_path: Path) -> None:
    s3.put("a", os.urandom(5 * PART))
    blob = open_in(cache_of(tmp_path), s3.remote(), "a")
    s3.put("a", os.urandom(2 * PART))
    with pytest.raises(ObjectChanged):
        read(blob, 4 * PART, 5 * PART)


@pytest.mark.parametrize("fault", ["cut", "truncate", "reset", "status"])
def test_a_broken_answer_is_asked_for_again(s3: S3Prefix, proxy: FaultProxy, tmp_path: Path, fault: str) -> None:
    data = os.urandom(3 * PART + 7)
    s3.put("a", data)
    proxy.rules(Rule(fault, after=1_000, times=2))
    cache = cache_of(tmp_path)
    assert read(open_in(cache, s3.remote(via=proxy), "a"), 0, len(data)) == data
    assert sum(bool(entry.fault) for entry in proxy.log("GET")) == 2
    assert cache.counters.mine().retries >= 1


def test_what_is_not_there_is_an_error_at_once(s3: S3Prefix, tmp_path: Path) -> None:
    with pytest.raises(ObjectMissing, match="nowhere"):
        open_in(cache_of(tmp_path), s3.remote(), "nowhere")


def test_a_second_run_with_a_known_version_makes_no_request_at_all(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path
) -> None:
    data = os.urandom(9 * PART)
    s3.put("a", data)
    known = {"a": s3.remote().head("a")}
    first = CachedStore(s3.remote(via=proxy), cache_of(tmp_path), known)
    assert read(first.open("a"), 0, len(data)) == data
    first.close()
    requests = proxy.log()
    assert 1 <= len(requests) <= len(data) / PART + 2
    second = CachedStore(s3.remote(via=proxy), cache_of(tmp_path), known)
    assert read(second.open("a"), 0, len(data)) == data
    assert len(proxy.log()) == len(requests)


def test_a_read_asks_for_its_own_parts_only(s3: S3Prefix, proxy: FaultProxy, tmp_path: Path) -> None:
    data = os.urandom(50 * PART)
    s3.put("a", data)
    blob = open_in(cache_of(tmp_path), s3.remote(via=proxy), "a")
    assert read(blob, 20 * PART + 5, 21 * PART + 5) == data[20 * PART + 5 : 21 * PART + 5]
    assert [(entry.start, entry.end) for entry in proxy.log("GET")] == [(20 * PART, 22 * PART)]


def test_a_shard_by_its_url_is_a_file(s3: S3Prefix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = os.urandom(100_000)
    s3.put("deep/shard.tar", data)
    cache = ShardCache(tmp_path / "cache", max_size_gb=1, remote=s3.remote())
    assert cache.get_shard("deep/shard.tar").read_bytes() == data
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.server.url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    by_url = ShardCache(tmp_path / "other", max_size_gb=1)
    assert by_url.get_shard(f"{s3.url}/deep/shard.tar").read_bytes() == data
