"""Warming: progress that ends at all there is to fetch, and errors that are told."""

from pathlib import Path

import pytest

import penstock
from penstock.feed.warming import warm
from penstock.store.remote.remote import ObjectChanged
from tests.conftest import S3Prefix
from tests.e2e.bucket import PART, index, needed_parts, remote_run, upload
from tests.servers.faultproxy import FaultProxy, Rule
from tests.shards import small_run, write_shards

SIZES = {"hindi": [9, 6, 8], "odia": [7, 5]}


@pytest.fixture
def folder(s3: S3Prefix, tmp_path: Path) -> Path:
    write_shards(tmp_path, SIZES, bytes_each=5_000)
    upload(s3, tmp_path)
    return tmp_path


@pytest.mark.parametrize("indexed", [True, False])
def test_progress_rises_to_all_that_was_missing(s3: S3Prefix, proxy: FaultProxy, folder: Path, indexed: bool) -> None:
    if indexed:
        index(s3, folder)
    feed = penstock.open(remote_run(s3, proxy, folder, global_batch_size=4), rank=0, world=1)
    proxy.rules(Rule("delay", seconds=0.05))
    told: list[tuple[int, int]] = []
    warmed = warm(feed, range(3), lambda fetched, total: told.append((fetched, total)))
    sent = sum(request.sent for request in proxy.log("GET"))
    assert warmed.steps == 3 and warmed.bytes_fetched == sent == told[-1][0] == told[-1][1] > 0
    assert told == sorted(told) and len({total for _, total in told}) == 1
    again = warm(feed, range(4), lambda fetched, total: told.append((fetched, total)))
    assert again.bytes_fetched == told[-1][1] == sum(request.sent for request in proxy.log("GET")) - sent
    if indexed:
        parts = {part for step in range(4) for part in needed_parts(feed, step)}
        assert again.bytes_fetched + sent <= len(parts) * PART
    feed.close()


def test_steps_that_need_more_than_the_cache_holds_are_left_out(s3: S3Prefix, proxy: FaultProxy, folder: Path) -> None:
    index(s3, folder)
    size = max(path.stat().st_size for path in folder.glob("*.tar"))
    feed = penstock.open(remote_run(s3, proxy, folder, size=3 * size, pool=1, global_batch_size=4), rank=0, world=1)
    warmed = warm(feed, range(100), lambda fetched, total: None)
    assert 0 < warmed.steps < 100
    proxy.clear()
    for step in range(warmed.steps):
        feed.batch(step)
        assert not [
            r for r in proxy.log("GET") if r.key.rpartition("/")[2] in {line.group for line in feed.lines(step)}
        ]
    feed.close()


def test_an_object_that_changed_is_told(s3: S3Prefix, proxy: FaultProxy, folder: Path) -> None:
    index(s3, folder)
    for path in folder.glob("*.tar"):
        s3.put(path.name, path.read_bytes() + bytes(512))
    feed = penstock.open(remote_run(s3, proxy, folder, global_batch_size=4), rank=0, world=1)
    with pytest.raises(ObjectChanged):
        warm(feed, range(3), lambda fetched, total: None)


def test_a_local_folder_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="nothing to warm"):
        warm(penstock.open(small_run(folder, global_batch_size=4)), range(3), lambda fetched, total: None)
