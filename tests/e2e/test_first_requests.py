"""A feed on a cold cache, seen at the wire: what is asked for, in which order, and what is not asked for at all."""

import time
from itertools import chain
from pathlib import Path

import pytest

import penstock
from penstock.feed.steps import Steps
from tests.conftest import S3Prefix
from tests.e2e.bucket import Part, index, needed_parts, remote_run, requested_parts, upload, without_repeats
from tests.servers.faultproxy import FaultProxy
from tests.shards import write_shards

pytestmark = pytest.mark.long

ONE = {"hindi": [9, 6, 8, 7, 5]}
AHEAD = 3  # so the window moves at every second step


@pytest.fixture
def folder(s3: S3Prefix, tmp_path: Path) -> Path:
    write_shards(tmp_path, ONE, bytes_each=5_000)
    upload(s3, tmp_path)
    return tmp_path


def asked_for(s3: S3Prefix, proxy: FaultProxy, parts: int) -> list[Part]:
    """The parts that were asked for, once so many have been and those that should not had some time to come."""
    until = time.monotonic() + 30
    while len(requested_parts(s3, proxy.log("GET"))) < parts and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.3)
    return requested_parts(s3, proxy.log("GET"))


@pytest.mark.parametrize("first", [0, sum(ONE["hindi"]) - 5, 10**6 * sum(ONE["hindi"]) - 2])
def test_one_after_the_other_requests_come_in_the_order_of_the_plan_across_epoch_ends(
    s3: S3Prefix, proxy: FaultProxy, folder: Path, first: int
) -> None:
    index(s3, folder)
    feed = penstock.open(
        remote_run(s3, proxy, folder, global_batch_size=1, prefetch={"steps": AHEAD, "concurrency": 1})
    )
    needed = [needed_parts(feed, step) for step in range(first, first + 9 + AHEAD)]
    walk = feed.walk(Steps(first))
    walk.batch(first)
    wanted = without_repeats(chain(*needed[: AHEAD + 1]))
    assert asked_for(s3, proxy, len(wanted)) == wanted
    for step in range(first + 1, first + 9):
        walk.batch(step)
    wanted = without_repeats(chain(*needed))
    assert asked_for(s3, proxy, len(wanted)) == wanted
    assert proxy.log("HEAD") == []


def test_eight_at_once_ask_for_nothing_beyond_the_window_and_for_no_part_twice(
    s3: S3Prefix, proxy: FaultProxy, folder: Path
) -> None:
    index(s3, folder)
    feed = penstock.open(
        remote_run(s3, proxy, folder, global_batch_size=2, prefetch={"steps": AHEAD, "concurrency": 8})
    )
    allowed = [part for step in range(AHEAD) for part in needed_parts(feed, step)]
    walk = feed.walk(Steps(0))
    for step in range(2 * sum(ONE["hindi"])):
        allowed += needed_parts(feed, step + AHEAD)
        walk.batch(step)
        asked = requested_parts(s3, proxy.log("GET"))
        assert set(asked) <= set(allowed)
        assert len(asked) == len(set(asked))
        assert set(needed_parts(feed, step)) <= set(asked)


def test_the_window_is_that_of_the_rank_and_of_the_batch_size_that_a_step_is_made_for(
    s3: S3Prefix, proxy: FaultProxy, folder: Path
) -> None:
    index(s3, folder)
    run = remote_run(s3, proxy, folder, global_batch_size=2, prefetch={"steps": AHEAD, "concurrency": 1})
    feed = penstock.open(run, rank=0, world=1)
    wanted: set[Part] = set()
    for rank, world in ((0, 2), (1, 2)):
        feed.walk(Steps(0), rank, world).batch(0)
        wanted |= {part for step in range(AHEAD + 1) for part in needed_parts(feed, step, rank, world)}
        assert set(asked_for(s3, proxy, len(wanted))) == wanted
    feed.resume({**feed.state(1), "segments": [[0, 0, 8]], "samples": 8})
    feed.walk(Steps(1)).batch(1)
    wanted |= {part for step in range(1, AHEAD + 2) for part in needed_parts(feed, step)}
    assert set(asked_for(s3, proxy, len(wanted))) == wanted


@pytest.mark.parametrize("indexed", [True, False])
def test_without_a_walk_only_the_step_that_is_asked_for_is_fetched(
    s3: S3Prefix, proxy: FaultProxy, folder: Path, indexed: bool
) -> None:
    if indexed:
        index(s3, folder)
    feed = penstock.open(remote_run(s3, proxy, folder, global_batch_size=2))
    shards: set[str] = set()
    parts: set[Part] = set()
    for step in (3, 4, 5, 9):
        feed.batch(step)
        asked = asked_for(s3, proxy, 0)
        shards |= {line.group for line in feed.lines(step)}
        assert {shard for shard, _ in asked} == shards
        if indexed:
            parts |= set(needed_parts(feed, step))
            assert set(asked) == parts


def test_without_an_index_whole_shards_come_in_the_order_of_the_plan(
    s3: S3Prefix, proxy: FaultProxy, folder: Path
) -> None:
    feed = penstock.open(
        remote_run(s3, proxy, folder, global_batch_size=1, prefetch={"steps": AHEAD, "concurrency": 1})
    )
    items = sum(ONE["hindi"])
    wanted = list(dict.fromkeys(line.group for step in range(items + AHEAD) for line in feed.lines(step)))
    walk = feed.walk(Steps(0))
    for step in range(items):
        walk.batch(step)
        asked = list(dict.fromkeys(shard for shard, _ in requested_parts(s3, proxy.log("GET"))))
        assert asked == wanted[: len(asked)]
        seen = {line.group for later in range(step + AHEAD + 1) for line in feed.lines(later)}
        assert set(asked) <= seen, "nothing beyond the window"
    parts = requested_parts(s3, proxy.log("GET"))
    assert len(parts) == len(set(parts))
    assert {request.key.rpartition("/")[2] for request in proxy.log("HEAD")} == set(wanted)


@pytest.mark.parametrize("indexed", [True, False])
def test_a_second_run_asks_for_nothing_that_is_resident(
    s3: S3Prefix, proxy: FaultProxy, folder: Path, indexed: bool
) -> None:
    if indexed:
        index(s3, folder)
    run = remote_run(s3, proxy, folder, global_batch_size=7)
    first = penstock.open(run)
    before = [first.batch(step)["records"] for step in range(6)]
    first.close()
    assert proxy.log("GET")
    proxy.clear()
    second = penstock.open(run)
    assert [second.batch(step)["records"] for step in range(6)] == before
    second.close()
    assert proxy.log("GET") == []
    assert indexed == (proxy.log("HEAD") == []), "an index knows the versions; without one they are asked for"


def test_planning_asks_the_bucket_nothing(s3: S3Prefix, proxy: FaultProxy, folder: Path) -> None:
    feed = penstock.open(remote_run(s3, proxy, folder, global_batch_size=7))
    planned = list(feed.lines(12345))
    assert len(planned) == 7 and list(feed.where(planned[0].item))
    assert feed.state(12345)["step"] == 12345
    assert proxy.log() == []
