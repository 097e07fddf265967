"""12 languages from a real S3 server through a cache of a third of the data: the ledger equals the plan throughout."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock
from penstock.cli.demos.mix_data import HOURS
from penstock.feed import Feed
from tests.cli.commands import run
from tests.conftest import S3Prefix
from tests.e2e.bucket import index, remote_run, upload
from tests.servers.faultproxy import FaultProxy

pytestmark = pytest.mark.long

BATCH, EPOCHS = 12, 3
RANK = """
import sys, penstock
config, rank, world, steps = sys.argv[1], *map(int, sys.argv[2:])
with penstock.open(config, rank=rank, world=world).loader(threads=2) as loader:
    for _ in range(steps): next(loader)
"""


@pytest.fixture
def config(s3: S3Prefix, proxy: FaultProxy, clips: Path) -> Path:
    """The run, over shards in which one clip is no audio."""
    shard = clips / "hindi" / "shard-000002.tar"
    shard.write_bytes(shard.read_bytes().replace(b"RIFF", b"JUNK", 1))
    upload(s3, clips)
    index(s3, clips)
    size = sum(path.stat().st_size for path in clips.rglob("*.tar")) // 3
    speech = {"recipe": "speech", "speech": {"crop": 1.0}, "global_batch_size": BATCH, "mixture": {"weights": "hours"}}
    usage = {"log": clips / "usage.jsonl", "every": 7, "ids": True}
    options = remote_run(s3, proxy, clips, part=1 << 16, size=size, pool=1, usage=usage, **speech)
    path = clips / "run.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps(options, default=str))))
    return path


def enough_steps(feed: Feed) -> int:
    """Until the largest language is in its fourth epoch."""
    largest = max(HOURS, key=lambda name: HOURS[name])
    return next(
        step
        for step in range(10_000)
        if any(line.source == largest and line.epoch >= EPOCHS for line in feed.lines(step))
    )


def ledger(config: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (config.parent / "usage.jsonl").read_text().splitlines()]


def assert_ledger_is_plan(config: Path, steps: int, world: int) -> None:
    """By ``penstock usage --check``, and once more without the code that it runs."""
    result = run("usage", config.parent / "usage.jsonl", "--check", config)
    assert result.exit_code == 0, result.output
    assert f"all {steps * BATCH:,} samples agree with the plan" in result.output
    feed, seen = penstock.open(config, rank=0, world=1), set()
    for line in ledger(config):
        replaced = {(bad["step"], bad["slot"]) for bad in line["bad"]}
        for step, ids in zip(range(*line["steps"]), line["ids"], strict=True):
            planned = [f"{each.group}:{each.item}" for each in feed.lines(step, line["rank"], world)]
            differing = {(step, slot) for slot, (a, b) in enumerate(zip(planned, ids, strict=True)) if a != b}
            assert differing == replaced & {(step, slot) for slot in range(BATCH)}
            assert (step, line["rank"]) not in seen
            seen.add((step, line["rank"]))
    assert seen == {(step, rank) for step in range(steps) for rank in range(world)}
    bad = [bad for line in ledger(config) for bad in line["bad"]]
    assert bad and {each["group"] for each in bad} == {"hindi/shard-000002.tar"} and len({b["id"] for b in bad}) == 1


def assert_cache_kept_its_bound(config: Path) -> None:
    cache = yaml.safe_load(config.read_text())["cache"]
    kept = sum(path.stat().st_size for path in Path(cache["dir"]).rglob("*.data"))
    assert 0 < kept <= cache["size"]
    assert ledger(config)[-1]["cache"]["evictions"] > 0


def test_the_ledger_equals_the_plan_of_a_run_that_threads_begin_and_processes_resume(config: Path) -> None:
    feed = penstock.open(config, rank=0, world=1)
    steps = enough_steps(feed) + 1
    with feed.loader(threads=4) as loader:
        for _ in range(steps // 2):
            batch = next(loader)
            assert batch["wav"].shape == (BATCH, 16_000) and batch["feats"].shape == (BATCH, 1, 50, 160)
        state = loader.state_dict()
    feed.close()
    later = penstock.open(config, rank=0, world=1)
    with later.loader(workers=2) as loader:
        loader.load_state_dict(state)
        for _ in range(steps - steps // 2):
            next(loader)
    later.close()
    assert_ledger_is_plan(config, steps, world=1)
    assert_cache_kept_its_bound(config)


def test_two_ranks_share_a_cache_and_write_one_ledger(config: Path) -> None:
    steps = enough_steps(penstock.open(config, rank=0, world=1)) + 1
    command = [sys.executable, "-c", RANK, str(config)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([*command, str(rank), "2", str(steps)], env=environment) for rank in range(2)]
    assert [rank.wait(timeout=250) for rank in ranks] == [0, 0]
    assert_ledger_is_plan(config, steps, world=2)
    assert_cache_kept_its_bound(config)
    log = config.parent / "usage.jsonl"
    lines = log.read_text().splitlines()
    changed = json.loads(lines[3])
    changed["ids"][2][1] = "telugu/shard-000000.tar:telugu_00000"
    log.write_text("\n".join([*lines[:3], json.dumps(changed), *lines[4:]]) + "\n")
    result = run("usage", log, "--check", config)
    assert result.exit_code == 1 and "telugu_00000" in result.output
