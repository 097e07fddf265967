"""Simulation against counts: what ``penstock simulate`` predicts, and what a bucket was asked for."""

import json
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.config import make_config
from penstock.feed import Feed
from penstock.feed.opening import open_run
from penstock.feed.steps import Steps
from penstock.observe.simulation.bysteps import FIRST_TIME, simulate_steps
from penstock.observe.simulation.forecast import TOLERANCE
from penstock.observe.simulation.node import NodeSimulation
from penstock.pipelines import PIPELINES
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.counters import Counts
from tests.conftest import S3Prefix
from tests.e2e.bucket import PART, index, remote_run, upload
from tests.e2e.chat_run import chat_run, copy_files
from tests.servers.faultproxy import FaultProxy
from tests.shards import write_shards

pytestmark = pytest.mark.scale

SIZES = {"hindi": [50] * 40, "odia": [42] * 48, "assamese": [30] * 3}  # assamese is too small to be split
CLIP_BYTES = 3_000
CHAT_FILES = 24
CONVERSATIONS = 150  # per file
LOCKSTEP = {"steps": 8, "concurrency": 0}


def data_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.tar"))


@pytest.fixture
def shards(s3: S3Prefix, tmp_path: Path) -> Path:
    write_shards(tmp_path, SIZES, bytes_each=CLIP_BYTES)
    upload(s3, tmp_path)
    index(s3, tmp_path)
    return tmp_path


def in_lockstep(options: dict[str, Any], steps: int, rank: int, world: int) -> Counts:
    """Run in one thread, one request at a time, with the step as the clock of the cache."""
    now = 0
    config = make_config(options, PIPELINES, folder=Path())
    feed = Feed(config, open_run(config, lambda: now), rank=rank, world=world)
    with feed.walk(Steps(0, steps)) as walk:
        for step in range(steps):
            now = step + FIRST_TIME
            walk.batch(step)
            feed.catalog.close()  # no blob stays open from one step to the next
        counts = opened_cache(feed).counters.mine()
    feed.close()
    return counts


def opened_cache(feed: Feed) -> NodeCache:
    cache = feed.open_stores()
    assert cache is not None
    return cache


def simulated(options: dict[str, Any], steps: int, rank: int, world: int) -> NodeSimulation:
    config = make_config(options, PIPELINES, folder=Path())
    feed = Feed(config, open_run(config), rank=rank, world=world)
    found = simulate_steps(feed, opened_cache(feed), range(rank, rank + 1), world, steps, lambda: None)
    feed.close()
    return found


def predicted_of(found: NodeSimulation) -> dict[str, int]:
    counts = found.counts
    return {"requests": counts.requests, "bytes": counts.bytes_fetched, "evictions": counts.evictions}


def counted_of(counts: Counts) -> dict[str, int]:
    return {"requests": counts.requests, "bytes": counts.bytes_fetched, "evictions": counts.evictions}


@pytest.mark.parametrize(
    ("nodes", "share", "indexed"), [(1, 2, True), (1, 1 / 3, True), (2, 1 / 3, True), (2, 1 / 3, False)]
)
def test_in_lockstep_a_run_over_tar_shards_does_exactly_what_was_predicted(
    s3: S3Prefix, proxy: FaultProxy, shards: Path, nodes: int, share: float, indexed: bool
) -> None:
    if not indexed:
        (shards / "index").rename(shards / "no-index")
    size = int(data_bytes(shards) * share / nodes)
    batch = 96
    epoch = sum(map(sum, SIZES.values())) // batch
    options = {"lanes": nodes, "pool": 2, "global_batch_size": batch, "prefetch": LOCKSTEP, "size": size}
    for rank in range(nodes):
        run = remote_run(s3, proxy, shards, cache=f"node-{rank}", **options)
        empty = remote_run(s3, proxy, shards, cache=f"model-{rank}", **options)
        predicted = simulated(empty, 2 * epoch, rank, nodes)
        proxy.clear()
        counted = in_lockstep(run, 2 * epoch, rank, nodes)
        assert predicted_of(predicted) == counted_of(counted)
        assert len(proxy.log("GET")) == predicted.counts.requests
        assert (predicted.counts.evictions > 0) == (share < 1)


@pytest.mark.parametrize("share", [2, 1 / 3])
def test_an_ordinary_run_stays_in_the_interval_and_downloads_the_same_bytes_if_nothing_is_evicted(
    s3: S3Prefix, proxy: FaultProxy, shards: Path, share: float
) -> None:
    size = int(data_bytes(shards) * share)
    steps = 2 * sum(map(sum, SIZES.values())) // 96
    options = {"pool": 2, "global_batch_size": 96, "prefetch": {"steps": 8, "concurrency": 4}, "size": size}
    predicted = simulated(remote_run(s3, proxy, shards, cache="model", **options), steps, 0, 1)
    feed = penstock.open(remote_run(s3, proxy, shards, **options), rank=0, world=1)
    with feed.walk(Steps(0, steps)) as walk:
        for step in range(steps):
            walk.batch(step)
        counted = opened_cache(feed).counters.mine()
    feed.close()
    expected = predicted_of(predicted)
    found = counted_of(counted)
    if not expected["evictions"]:
        assert found["bytes"] == expected["bytes"]
    for name in ("requests", "evictions"):
        assert abs(found[name] - expected[name]) <= TOLERANCE * expected[name], name


@pytest.mark.parametrize("share", [2, 1 / 3])
def test_in_lockstep_a_chat_run_over_jsonl_does_exactly_what_was_predicted(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path, share: float
) -> None:
    copy_files(tmp_path)
    total = sum(put_conversations(s3, number) for number in range(CHAT_FILES))
    size = int(total * share)
    NodeCache(tmp_path / "cache", size, part_bytes=PART).close()
    remote = {"endpoint": proxy.url, "region": "us-east-1"}
    sources = [{"name": "text", "dtype": "conversation", "path": f"{s3.url}/text/*.jsonl", "remote": remote}]
    own = {"dir": str(tmp_path / "cache"), "size": size}
    options = {"global_batch_size": 32, "pool": 2, "prefetch": {"steps": 4, "concurrency": 0}, "cache": own}
    config = make_config(chat_run(tmp_path, sources, **options, mixture={"weights": "equal"}), PIPELINES, folder=Path())
    now = 0
    feed = Feed(config, open_run(config, lambda: now), rank=0, world=1)
    cache = opened_cache(feed)
    feed.catalog.close()
    cache.admission.clear()  # of what was read for the index
    before = counted_of(cache.counters.mine())
    steps = 2 * CHAT_FILES * CONVERSATIONS // 32
    (tmp_path / "model").mkdir()
    model = NodeCache.as_it_is(tmp_path / "model", size, PART)
    predicted = predicted_of(simulate_steps(feed, model, range(1), 1, steps, lambda: None))
    with feed.walk(Steps(0, steps)) as walk:
        for step in range(steps):
            now = step + FIRST_TIME
            walk.batch(step)
            feed.catalog.close()
        counted = counted_of(cache.counters.mine())
    feed.close()
    assert {name: counted[name] - before[name] for name in counted} == predicted
    assert (predicted["evictions"] > 0) == (share < 1)


def put_conversations(s3: S3Prefix, number: int) -> int:
    """Put a file of conversations into the bucket. Returns its size."""
    said = [("user", f"question {number} " + "x" * 200), ("assistant", "a" * 300)]
    line = json.dumps({"messages": [{"role": role, "content": content} for role, content in said]})
    data = f"{line}\n".encode() * CONVERSATIONS
    s3.put(f"text/file-{number:02d}.jsonl", data)
    return len(data)
