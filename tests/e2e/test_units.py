"""Runs whose groups are ranges of one object, or pieces made from them, in a cache smaller than the object."""

from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import penstock
from penstock.feed import Feed
from penstock.store.cache import maintenance
from penstock.store.cache.cache import NodeCache
from tests.cli.commands import complaint, run
from tests.conftest import S3Prefix
from tests.cuts import WORD, CutPipeline
from tests.servers.faultproxy import FaultProxy

PART = 1_024
GROUPS = 12
WORDS = 500
CUTS = [number * WORDS for number in range(GROUPS + 1)]
POOL = 3


@pytest.fixture(params=["ranges", "pieces"])
def config(request: pytest.FixtureRequest, s3: S3Prefix, proxy: FaultProxy, tmp_path: Path) -> Path:
    s3.put("large", np.arange(CUTS[-1], dtype=np.int64).tobytes())
    keys = {
        "pipelines": {"cuts": "tests.cuts:CutPipeline"},
        "recipe": "cuts",
        "global_batch_size": 50,
        "pool": POOL,
        "seed": 5,
        "prefetch": {"steps": 4, "concurrency": 4},
        "sources": [
            {
                "name": "large",
                "store": s3.url,
                "path": "large",
                "cuts": CUTS,
                "made": request.param == "pieces",
                "remote": {"endpoint": proxy.url, "region": "us-east-1"},
            }
        ],
        "cache": {"dir": str(tmp_path / "cache"), "size": (2 * POOL + 2) * WORDS * WORD},
    }
    NodeCache(tmp_path / "cache", 10**6, part_bytes=PART).close()
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(keys))
    return path


def opened(config: Path) -> Feed:
    return penstock.open(config, rank=0, world=1)


def planned(feed: Feed, step: int) -> list[int]:
    return [int(line.item.removeprefix("word-")) for line in feed.lines(step)]


@pytest.mark.parametrize(("threads", "workers"), [(0, 0), (3, 0), (None, 2)])
def test_batches_are_those_of_the_plan_within_the_bound(config: Path, threads: int | None, workers: int) -> None:
    steps = 2 * CUTS[-1] // 50  # two epochs: what was evicted comes again
    feed = opened(config)
    with opened(config).loader(threads=threads, workers=workers) as loader:
        for step, batch in enumerate(islice(loader, steps)):
            assert batch["words"].tolist() == planned(feed, step)
    settings = yaml.safe_load(config.read_text())["cache"]
    held = maintenance.stat(NodeCache.as_it_is(settings["dir"]))
    assert 0 < held.reserved <= settings["size"]
    assert held.counts.evictions >= GROUPS // 2


def test_an_epoch_fetches_every_byte_once(config: Path, proxy: FaultProxy) -> None:
    settings = yaml.safe_load(config.read_text())
    settings["cache"]["size"] = 10**6
    config.write_text(yaml.safe_dump(settings))
    with opened(config).loader() as loader:
        for _ in islice(loader, CUTS[-1] // 50):
            pass
    fetched = sorted((request.start, request.end) for request in proxy.log("GET"))
    assert fetched[0][0] == 0
    assert all(end == start for (_, end), (start, _) in pairwise(fetched))
    assert fetched[-1][1] == CUTS[-1] * WORD


def test_warm_fetches_what_the_steps_read(config: Path, proxy: FaultProxy) -> None:
    done = run("warm", config, "--steps", "3:5")
    assert done.exit_code == 0, done.output
    assert "steps 3 to 4 are in the cache" in done.output
    proxy.clear()
    feed = opened(config)
    words: Any = feed.batch(3)["words"]
    assert words.tolist() == planned(feed, 3)


def test_a_cache_too_small_for_the_resident_ranges_is_refused(config: Path) -> None:
    settings = yaml.safe_load(config.read_text())
    settings["cache"]["size"] = (POOL + 1) * WORDS * WORD - 1
    config.write_text(yaml.safe_dump(settings))
    assert f"at least {(POOL + 1) * WORDS * WORD:,}" in complaint(run("warm", config))
    with pytest.raises(penstock.ConfigError, match="smaller pool than 3"):
        opened(config).batch(0)


def test_a_resumed_run_goes_on_with_the_same_words(config: Path) -> None:
    feed = opened(config)
    state = feed.state(60)
    again = penstock.open(config, rank=0, world=1, pipelines={"cuts": CutPipeline()})
    step = again.resume(state)
    assert again.batch(step)["words"].tolist() == planned(feed, 60)
