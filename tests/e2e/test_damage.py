"""Objects that are cut, replaced or damaged are always met; faults that pass by themselves change nothing but time."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.feed import Feed
from penstock.readers.errors import ContentError
from penstock.store.remote.opening import open_remote
from penstock.store.remote.remote import ObjectChanged, StoreError
from tests.conftest import S3Prefix
from tests.e2e.bucket import PART, index, manifest_of, remote_run, store_of, upload
from tests.servers.faultproxy import FaultProxy, Rule
from tests.shards import small_run, write_shards

SIZES = {"hindi": [9, 6, 8], "odia": [7, 5]}
STEPS = 10


@pytest.fixture
def folder(s3: S3Prefix, tmp_path: Path) -> Path:
    write_shards(tmp_path, SIZES, bytes_each=5_000)
    upload(s3, tmp_path)
    return tmp_path


def bare(**prefetch: Any) -> dict[str, Any]:
    """One request after the other, none ahead."""
    return {"global_batch_size": 2, "prefetch": {"steps": 0, "concurrency": 1, **prefetch}}


def walk(feed: Feed, steps: int = STEPS) -> list[Any]:
    try:
        return [(batch["ids"], batch["records"], batch["bad"]) for batch in map(feed.batch, range(steps))]
    finally:
        feed.close()


@pytest.mark.parametrize("shorter", [0, 4 * PART])
def test_an_object_replaced_between_two_of_its_ranges_stops_the_run(
    s3: S3Prefix, proxy: FaultProxy, folder: Path, shorter: int
) -> None:
    index(s3, folder)
    feed = penstock.open(remote_run(s3, proxy, folder, **bare()))
    feed.batch(0)
    feed.close()
    replace(s3, folder, shorter)
    with pytest.raises(ObjectChanged, match=r"\.tar"):
        walk(feed)


@pytest.mark.parametrize("shorter", [0, 4 * PART])
def test_without_an_index_an_object_replaced_since_its_version_was_learnt_stops_the_run(
    s3: S3Prefix, proxy: FaultProxy, folder: Path, shorter: int
) -> None:
    feed = penstock.open(remote_run(s3, proxy, folder, **bare()))
    for shard in folder.glob("*.tar"):
        store_of(feed).open(shard.name).close()
    replace(s3, folder, shorter)
    with pytest.raises(ObjectChanged, match=r"\.tar"):
        walk(feed)


def replace(s3: S3Prefix, folder: Path, shorter: int) -> None:
    for shard in folder.glob("*.tar"):
        data = shard.read_bytes().replace(b":", b";")
        s3.put(shard.name, data[: len(data) - shorter])


def test_an_object_replaced_since_it_was_indexed_stops_the_run(s3: S3Prefix, proxy: FaultProxy, folder: Path) -> None:
    index(s3, folder)
    replace(s3, folder, shorter=0)
    with pytest.raises(ObjectChanged, match=r"\.tar"):
        walk(penstock.open(remote_run(s3, proxy, folder, **bare())))


def test_an_object_cut_since_it_was_indexed_elsewhere_stops_the_run(
    s3: S3Prefix, proxy: FaultProxy, folder: Path
) -> None:
    index(s3, folder)
    copy = S3Prefix(s3.server, f"{s3.prefix}-copy")
    upload(copy, folder)
    assert walk(penstock.open(remote_run(copy, proxy, folder, **bare()))), "a copy is as good"
    for shard in folder.glob("*.tar"):
        copy.put(shard.name, shard.read_bytes()[:-512])
    with pytest.raises(OSError, match="index it again"):
        walk(penstock.open(remote_run(copy, proxy, folder, cache="another", **bare())))


def test_answers_that_stay_short_stop_the_run(s3: S3Prefix, proxy: FaultProxy, folder: Path) -> None:
    index(s3, folder)
    proxy.rules(Rule("truncate", after=100))
    feed = penstock.open(remote_run(s3, proxy, folder, **bare()))
    # As in every test, it gives up after seconds: the config's own three minutes are for real stores.
    impatient = dataclasses.replace(s3.through(proxy), retry_seconds=1)
    store_of(feed).remote = open_remote(s3.url, impatient)
    with pytest.raises(StoreError, match=r"\.tar"):
        walk(feed)


RECIPES: dict[str, dict[str, Any]] = {
    "raw": {"recipe": "raw"},
    "speech": {"recipe": "speech", "speech": {"crop": 0.5, "features": False}},
}


def flip(feed: Feed, times: int | None) -> Rule:
    """Flip the last byte of the first clip in the first answer, or in all: half a second of it does not reach there."""
    (row,) = manifest_of(feed).find(next(feed.lines(0)).item)
    members = manifest_of(feed).members(row)[0]
    (clip,) = (member for member in members if member.ext == "wav")
    begin = min(member.offset for member in members) // PART * PART if times else clip.offset
    return Rule(
        "corrupt",
        key=manifest_of(feed).shard(int(manifest_of(feed).shard_of(row))).path,
        times=times,
        after=clip.offset + clip.size - 1 - begin,
    )


def plain(batch: dict[str, Any]) -> dict[str, Any]:
    return {key: value.tolist() if hasattr(value, "tolist") else value for key, value in batch.items()}


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_byte_that_flips_on_its_way_is_found_by_the_checksums_of_an_index_and_mended(
    s3: S3Prefix, proxy: FaultProxy, clips: Path, recipe: str
) -> None:
    upload(s3, clips)
    here = penstock.open(small_run(clips, **{**bare(), "global_batch_size": 1}, **RECIPES[recipe]))
    index(s3, clips)
    feed = penstock.open(remote_run(s3, proxy, clips, **{**bare(), "global_batch_size": 1}, **RECIPES[recipe]))
    proxy.rules(flip(feed, times=1))
    assert plain(feed.batch(0)) == plain(here.batch(0))
    asked = proxy.log("GET")
    assert [request.fault for request in asked] == ["corrupt", *[""] * (len(asked) - 1)] and len(asked) > 1
    assert plain(feed.batch(0)) == plain(here.batch(0)) and len(proxy.log("GET")) == len(asked)
    feed.close()


@pytest.mark.parametrize("recipe", RECIPES)
def test_bytes_that_are_wrong_in_the_store_itself_make_a_bad_sample(
    s3: S3Prefix, proxy: FaultProxy, clips: Path, recipe: str
) -> None:
    upload(s3, clips)
    index(s3, clips)
    run = remote_run(s3, proxy, clips, **{**bare(), "global_batch_size": 1}, **RECIPES[recipe])
    feed = penstock.open(run)
    proxy.rules(flip(feed, times=1), flip(feed, times=None))
    (planned,) = feed.lines(0)
    batch = feed.batch(0)
    feed.close()
    assert [(bad.id, "checksum" in bad.reason) for bad in batch["bad"]] == [(planned.item, True)]
    assert batch["ids"] != [planned.item]
    with pytest.raises(ContentError, match="checksum"):
        penstock.open(run, on_error="raise").batch(0)


@pytest.mark.parametrize("indexed", [True, False])
def test_one_request_in_ten_that_fails_changes_nothing_but_time(
    s3: S3Prefix, proxy: FaultProxy, folder: Path, indexed: bool
) -> None:
    here = walk(penstock.open(small_run(folder, global_batch_size=4)), 2 * STEPS)
    if indexed:
        index(s3, folder)
    faults = [Rule(fault, probability=0.034, after=700) for fault in ("status", "reset", "cut")]
    proxy.rules(*faults, Rule("status", method="HEAD", status=503, probability=0.1), seed=1)
    feed = penstock.open(remote_run(s3, proxy, folder, part=512, global_batch_size=4))
    assert walk(feed, 2 * STEPS) == here
    assert sum(bool(request.fault) for request in proxy.log()) >= 2
