"""A robot run on a cold cache, seen at the wire: which bytes are asked for, in which order, and how often."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import penstock
from penstock.curate.robot.writer import Episode, Layout, write_dataset
from penstock.feed.steps import Steps
from penstock.store.cache import maintenance
from penstock.store.cache.cache import NodeCache
from tests.cli.commands import run
from tests.conftest import S3Prefix
from tests.e2e.robots import (
    CAMERA,
    EPISODES,
    LENGTH,
    PART,
    Robots,
    Span,
    in_parts,
    planned,
    requested,
    robot_run,
    through,
    upload,
)
from tests.servers.faultproxy import FaultProxy

POOL = 6
STEPS_PER_EPOCH = EPISODES * LENGTH // 8


@pytest.fixture(params=["in front", "at the end"])
def robots(request: pytest.FixtureRequest, robots_with: Callable[[str], Robots]) -> Robots:
    return robots_with(request.param)


@pytest.fixture
def remote(s3: S3Prefix, proxy: FaultProxy, robots: Robots) -> Iterator[dict[str, Any]]:
    """The keys that name the dataset in the bucket."""
    upload(s3, robots)
    proxy.clear()
    yield {"store": s3.url, "remote": through(proxy)}


def opened(folder: Path, remote: dict[str, Any], **options: Any) -> penstock.Feed:
    return penstock.open(robot_run(folder, **remote, **options), rank=0, world=1)


def settled(s3: S3Prefix, robots: Robots, proxy: FaultProxy) -> list[Span]:
    """The ranges that were asked for, once nothing more comes."""
    before: list[Span] = []
    quiet = 0
    while quiet < 3:  # a busy machine may pause for longer than once
        time.sleep(0.4)
        asked = requested(s3, robots, proxy.log("GET"))
        quiet = quiet + 1 if asked == before else 0
        before = asked
    return before


def same(batch: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(
        np.array_equal(np.asarray(batch[key]), np.asarray(other[key]))
        for key in (CAMERA, "observation.state", "index", "episode_index", "task_index")
    )


def test_some_episodes_take_their_own_bytes_and_headers_and_a_part_per_border(
    s3: S3Prefix, proxy: FaultProxy, robots: Robots, remote: dict[str, Any], tmp_path: Path
) -> None:
    own = [0, 17, 18, 95]  # the first and the last of all, and two that touch
    feed = opened(tmp_path, remote, episodes=own, pool=len(own))
    with feed.loader() as loader:
        batches = list(islice(loader, len(own) * LENGTH // 8))
        asked = settled(s3, robots, proxy)
    local = penstock.open(robot_run(tmp_path, robots.folder, episodes=own, pool=len(own)), rank=0, world=1)
    assert all(same(batch, local.batch(step)) for step, batch in enumerate(batches))
    theirs = [span for episode in own for span in (robots.rows[episode], robots.video_span(episode))]
    borders = 2 * PART * len(theirs)
    for path, times in robots.count(asked).items():
        allowed = robots.count([*in_parts(theirs), *robots.all_headers])[path] > 0
        assert not (times > 1).any(), f"{path}: bytes were fetched twice"
        assert not (times[~allowed] > 0).any(), f"{path}: bytes of other episodes were fetched"
        needed = robots.count(theirs)[path] > 0
        assert (times[needed] == 1).all(), f"{path}: bytes are missing"
    exact = sum(int((times > 0).sum()) for times in robots.count([*theirs, *robots.all_headers]).values())
    assert sum(end - start for _, start, end in asked) <= exact + borders
    feed.close()


def test_the_next_steps_come_first_then_what_is_resident_and_nothing_else(
    s3: S3Prefix, proxy: FaultProxy, robots: Robots, remote: dict[str, Any], tmp_path: Path
) -> None:
    reach = 3
    feed = opened(tmp_path, remote, pool=POOL, prefetch={"steps": reach, "concurrency": 1})
    with feed.walk(Steps(0)) as walk:
        walk.batch(0)
        asked = settled(s3, robots, proxy)
        residents = {episode for step in range(4) for episode, _ in planned(feed, step)}
        assert len(residents) == POOL, "the first steps draw from all that is resident"
        soon = [
            span for step in range(reach + 1) for each in planned(feed, step) for span in robots.sample_spans(*each)
        ]
        own = [span for each in residents for span in (robots.rows[each], robots.video_span(each))]
        for path, times in robots.count(asked).items():
            assert not (times > 1).any() and (times[robots.count(own)[path] > 0] == 1).all()
            assert not times[robots.count([*in_parts(own), *robots.all_headers])[path] == 0].any()
        urgent = robots.count([*soon, *robots.all_headers])
        is_urgent = [bool((urgent[path][start:end] > 0).any()) for path, start, end in asked]
        assert is_urgent == sorted(is_urgent, reverse=True), "what the next steps need comes first"
        assert not all(is_urgent), "there was something to fetch behind it"
    feed.close()


def test_once_the_residents_are_here_decoding_makes_no_request(
    s3: S3Prefix, proxy: FaultProxy, robots: Robots, remote: dict[str, Any], tmp_path: Path
) -> None:
    own = list(range(40, 40 + POOL))
    feed = opened(tmp_path, remote, episodes=own, pool=POOL, prefetch={"steps": 2, "concurrency": 4})
    with feed.loader(threads=2) as loader:
        next(iter(loader))
        settled(s3, robots, proxy)
        proxy.clear()
        for _ in islice(loader, 2 * POOL * LENGTH // 8):  # two epochs of them
            pass
        assert proxy.log() == []
    feed.close()


def test_a_pool_over_files_ten_times_the_cache_fetches_each_byte_once_per_epoch(
    s3: S3Prefix, proxy: FaultProxy, robots: Robots, remote: dict[str, Any], tmp_path: Path
) -> None:
    large = {path: size for path, size in robots.sizes.items() if robots.is_large(path)}
    size = sum(large.values()) // 10
    feed = opened(tmp_path, remote, pool=3, size=size, prefetch={"steps": 4})
    local = penstock.open(robot_run(tmp_path / "local", robots.folder, pool=3), rank=0, world=1)
    with feed.walk(Steps(0, STEPS_PER_EPOCH)) as walk:
        for step in range(STEPS_PER_EPOCH):
            assert same(walk.batch(step), local.batch(step))
    feed.close()
    held = maintenance.stat(NodeCache.as_it_is(tmp_path / "cache"))
    assert 0 < held.reserved <= size and held.counts.evictions > EPISODES // 2
    # What is resident is held: a byte that was evicted too soon would have come twice. Headers were read and may go.
    headers = robots.count(robots.all_headers)
    for path, times in robots.count(requested(s3, robots, proxy.log("GET"))).items():
        assert not (times[headers[path] == 0] > 1).any(), f"{path}: bytes were fetched twice"


def test_the_first_batch_waits_for_its_own_frames_and_not_for_files(
    s3: S3Prefix, proxy: FaultProxy, robots: Robots, remote: dict[str, Any], tmp_path: Path
) -> None:
    feed = opened(tmp_path, remote, pool=POOL)
    batch = feed.batch(0)
    asked = requested(s3, robots, proxy.log("GET"))
    spans = [span for each in planned(feed, 0) for span in robots.sample_spans(*each)]
    first = [robots.rows[0], robots.video_span(0)]  # an episode is looked at to reckon the room that the pool takes
    allowed = robots.count([*in_parts(spans), *robots.all_headers, *in_parts(first)])
    assert len(batch["ids"]) == 8
    for path, times in robots.count(asked).items():
        assert not times[allowed[path] == 0].any() and not (times > 1).any()
    assert sum(end - start for _, start, end in asked) < sum(robots.sizes.values()) / 4
    feed.close()


RANK = """
import json, sys
import penstock
config, rank = sys.argv[1], int(sys.argv[2])
feed = penstock.open(config, rank=rank, world=2)
with feed.loader(threads=2) as loader:
    seen = [batch["ids"] for _, batch in zip(range(40), loader)]
    print(json.dumps(seen), flush=True)
    sys.stdin.read()  # until the other rank is done, too: what is under way when a process ends is fetched by the other
"""


@pytest.mark.long
@pytest.mark.parametrize("robots", ["at the end"], indirect=True)
def test_two_ranks_on_one_cache_download_once(
    s3: S3Prefix, proxy: FaultProxy, robots: Robots, remote: dict[str, Any], tmp_path: Path
) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(yaml.safe_dump(robot_run(tmp_path, **remote, pool=POOL)))
    command = [sys.executable, "-c", RANK, str(config)]
    ranks = [
        subprocess.Popen([*command, str(rank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    batches = [json.loads(rank.stdout.readline()) for rank in ranks if rank.stdout]
    counts = robots.count(settled(s3, robots, proxy))
    for rank in ranks:
        rank.communicate(timeout=60)
    assert [rank.returncode for rank in ranks] == [0, 0]
    plan = penstock.open(config, rank=0, world=1)
    for step in range(40):
        ids = [f"{episode}:{frame}" for episode, frame in planned(plan, step)]
        assert batches[0][step] + batches[1][step] == ids
    assert {path: int((times > 1).sum()) for path, times in counts.items()} == dict.fromkeys(counts, 0)


def test_warm_fetches_what_the_steps_need_and_no_more(
    s3: S3Prefix, proxy: FaultProxy, robots: Robots, remote: dict[str, Any], tmp_path: Path
) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(yaml.safe_dump(robot_run(tmp_path, **remote, pool=POOL)))
    done = run("warm", config, "--steps", "3:6")
    assert done.exit_code == 0 and "steps 3 to 5 are in the cache" in done.output, done.output
    feed = penstock.open(config, rank=0, world=1)
    spans = [span for step in range(3, 6) for each in planned(feed, step) for span in robots.sample_spans(*each)]
    first = [robots.rows[0], robots.video_span(0)]
    allowed = robots.count([*in_parts(spans), *robots.all_headers, *in_parts(first)])
    for path, times in robots.count(requested(s3, robots, proxy.log("GET"))).items():
        assert not times[allowed[path] == 0].any() and not (times > 1).any()
    proxy.clear()
    for step in range(3, 6):
        feed.batch(step)
    assert proxy.log() == []
    feed.close()


def test_embedded_images_are_fetched_once_with_their_rows(s3: S3Prefix, proxy: FaultProxy, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    frames = [random.integers(0, 256, (6, 80, 80, 3), dtype=np.uint8) for _ in range(16)]
    episodes = [Episode("look", {"action": np.zeros((6, 2), np.float32), CAMERA: own}) for own in frames]
    write_dataset(tmp_path / "images", episodes, fps=10, layout=Layout(images=(CAMERA,), rows_per_group=9))
    robots = Robots(tmp_path / "images")
    upload(s3, robots)
    proxy.clear()
    remote = {"store": s3.url, "remote": through(proxy)}
    feed = opened(tmp_path, remote, pool=16, prefetch={"steps": 4})
    with feed.walk(Steps(0)) as walk:
        first = walk.batch(0)
        settled(s3, robots, proxy)
        before = proxy.log()
        batches = [first, *(walk.batch(step) for step in range(1, 12))]  # an epoch
    for batch in batches:
        places = zip(batch["episode_index"].tolist(), batch["frame_index"].tolist(), strict=True)
        pixels = np.stack([frames[episode][frame] for episode, frame in places])
        assert np.array_equal(np.moveaxis(np.asarray(batch[CAMERA]), 1, -1), pixels)
    assert len(proxy.log()) == len(before), "all row groups of the resident episodes were unpacked already"
    [times] = robots.count(requested(s3, robots, before)).values()
    assert (times[4:] == 1).all(), "every byte of the file but the four letters at its beginning, once"
    feed.close()
