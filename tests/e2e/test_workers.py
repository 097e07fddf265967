"""Worker processes on a cold cache: each fetches ahead for its own steps only, and no part is fetched twice."""

import time
from itertools import islice
from pathlib import Path

import pytest

import penstock
from penstock.feed.steps import Steps
from tests.conftest import S3Prefix
from tests.e2e.bucket import Part, index, needed_parts, remote_run, requested_parts, upload
from tests.servers.faultproxy import FaultProxy
from tests.shards import write_shards

pytestmark = pytest.mark.long

SIZES = {"hindi": [30, 25, 35], "odia": [28, 31]}
WORKERS = 8
REACH = 24  # steps: three of a worker's own


@pytest.fixture
def folder(s3: S3Prefix, tmp_path: Path) -> Path:
    write_shards(tmp_path, SIZES, bytes_each=5_000)
    upload(s3, tmp_path)
    index(s3, tmp_path)
    return tmp_path


def settled(s3: S3Prefix, proxy: FaultProxy) -> list[Part]:
    """The parts that were asked for, once nothing more comes."""
    before: list[Part] = []
    quiet = 0
    while quiet < 3:  # a busy machine may pause for longer than once
        time.sleep(0.4)
        asked = requested_parts(s3, proxy.log("GET"))
        quiet = quiet + 1 if asked == before else 0
        before = asked
    return before


@pytest.mark.parametrize("worker", range(WORKERS))
def test_a_worker_asks_for_the_bytes_of_its_own_steps(
    s3: S3Prefix, proxy: FaultProxy, folder: Path, worker: int
) -> None:
    run = remote_run(s3, proxy, folder, global_batch_size=2, prefetch={"steps": REACH})
    feed = penstock.open(run, rank=0, world=1)
    steps = Steps(0).share(worker, WORKERS)
    with feed.walk(steps) as walk:
        walk.batch(steps.start)
        asked = settled(s3, proxy)
    own = {part for step in range(worker, worker + REACH + 1, WORKERS) for part in needed_parts(feed, step)}
    others = {part for step in range(worker + REACH) for part in needed_parts(feed, step)} - own
    assert set(asked) == own and len(asked) == len(own)
    assert others, "there was something to leave to the other workers"
    feed.close()


def test_eight_workers_together_ask_for_each_part_once_and_for_none_beyond_their_windows(
    s3: S3Prefix, proxy: FaultProxy, folder: Path
) -> None:
    run = remote_run(s3, proxy, folder, global_batch_size=2, prefetch={"steps": REACH})
    feed = penstock.open(run, rank=0, world=1)
    with feed.loader(workers=WORKERS, prefetch=1) as loader:
        batches = list(islice(loader, 40))
        asked = settled(s3, proxy)
    assert [batch["step"] for batch in batches] == list(range(40))
    last = 40 + WORKERS + REACH  # the step that a worker is at, and as far as it looks
    allowed = {part for step in range(last + 1) for part in needed_parts(feed, step)}
    needed = {part for step in range(40) for part in needed_parts(feed, step)}
    assert needed <= set(asked) <= allowed and len(asked) == len(set(asked))
