"""The trainer, run as a user runs it: killed, resumed, operated, on two ranks."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import penstock
from penstock.feed import Feed
from tests.conftest import S3Prefix
from tests.examples.runs import PATIENCE, Run, checkpoint, overrides, used

from control import give  # isort: skip

pytestmark = pytest.mark.long


def test_a_run_changed_on_the_way_killed_and_resumed_equals_one_never_interrupted(clips: Path, tmp_path: Path) -> None:
    folder, again = tmp_path / "run", tmp_path / "again"
    with Run(clips, folder) as run:
        run.wait_for(lambda run: run.steps >= 2)
        run.order("checkpoint=true")
        run.wait_for(lambda run: (folder / "checkpoint.pt").exists())
        run.order("lr=5e-3", "mixture={weights: {assamese: 3, odia: 1}}")
        run.wait_for(lambda run: bool(run.changes("mixture")) and run.steps >= run.changes("mixture")[0]["step"] + 3)
        run.signal(signal.SIGKILL)
        run.process.wait()
        (change,) = run.changes("mixture")
        killed_at = run.steps
    assert checkpoint(folder)["feed"]["step"] < change["step"] < killed_at  # the resumed run has to make it again

    with Run(clips, folder, **{"train.steps": killed_at + 2}) as run:
        run.finish()
    again.mkdir()
    shutil.copy(folder / "changes.json", again)  # the whole run anew, from the record of its changes
    with Run(clips, again, **{"train.steps": killed_at + 2}) as run:
        run.finish()

    assert_same(checkpoint(folder)["trainer"], checkpoint(again)["trainer"])
    fed = used(folder)
    assert fed == used(again) and sorted(fed) == list(range(killed_at + 2))
    replayed = penstock.open(folder / "feed.yaml", rank=0, world=1)
    assert fed == {step: planned(replayed, step) for step in fed}
    assert {clip.split("/")[0] for step in fed if step >= change["step"] for clip in fed[step]} == {"assamese", "odia"}
    assert rates(folder)[change["step"] + 1] == 5e-3 != rates(folder)[change["step"]]


def test_signals_pause_a_run_from_a_bucket_save_it_let_it_go_on_and_end_it(
    clips: Path, tmp_path: Path, s3: S3Prefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    for shard in clips.glob("*/*.tar"):
        s3.put(str(shard.relative_to(clips)), shard.read_bytes())
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.server.url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    cache = {"dataset.cache_dir": tmp_path / "cache", "dataset.cache_size_gb": 1}
    with Run(clips, tmp_path, **{"dataset.store": s3.url}, **cache) as run:
        run.wait_for(lambda run: run.steps >= 1)
        run.signal(signal.SIGUSR2)
        run.wait_for(lambda run: bool(run.changes("pause")))
        run.signal(signal.SIGUSR1)
        run.wait_for(lambda run: bool(run.changes("checkpoint")) and (tmp_path / "checkpoint.pt").exists())
        paused_at = run.changes("pause")[0]["step"]
        assert checkpoint(tmp_path)["feed"]["step"] == paused_at == run.steps  # not one step since
        run.signal(signal.SIGUSR2)
        run.wait_for(lambda run: run.steps > paused_at)
        run.order("mixture={weights: {klingon: 1}}")
        run.wait_for(lambda run: bool(run.changes("refused")))
        assert "klingon" in run.changes("refused")[0]["value"]
        run.signal(signal.SIGTERM)
        run.finish()
        assert [c["value"] for c in run.changes("pause")] == [True, False]
        assert checkpoint(tmp_path)["feed"]["step"] == run.steps == run.changes("stop")[0]["step"]


def test_two_ranks_obey_and_share_every_batch_and_one_goes_on_alone(clips: Path, tmp_path: Path) -> None:
    held_out = {"dataset.held_out": clips / "held_out.tsv"}
    give(tmp_path, ["mixture={weights: {assamese: 1, odia: 1}}"])  # waits for the first rank, and holds for both
    script = Path(__file__).with_name("train_and_digest.py")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(script)]
    ended = subprocess.run(
        [*launch, *overrides(clips, tmp_path, **{"train.steps": 5}, **held_out)],
        timeout=PATIENCE,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    digests = {(tmp_path / f"digest.rank{rank}").read_text() for rank in range(2)}
    assert len(digests) == 1  # both ranks hold the same weights
    distances = checkpoint(tmp_path)["held_out"]
    assert distances[5] < distances[0]

    with Run(clips, tmp_path, **{"train.steps": 6}, **held_out) as run:
        assert "at step 6" in run.finish()
    plan = penstock.open(tmp_path / "feed.yaml", rank=0, world=1)
    assert {source for step in range(6) for source in (line.source for line in plan.lines(step))} == {
        "assamese",
        "odia",
    }
    first, second = used(tmp_path), used(tmp_path, rank=1)
    assert [first[step] + second.get(step, []) for step in range(6)] == [planned(plan, step) for step in range(6)]


def planned(feed: Feed, step: int) -> list[str]:
    return [f"{line.group}:{line.item}" for line in feed.lines(step)]


def assert_same(one: Any, other: Any) -> None:
    """To the last bit, however nested."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    else:
        assert one == other


def rates(folder: Path) -> dict[int, float]:
    """The learning rate that led to each count of steps."""
    records = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return {record["step"]: record["lr"] for record in records if "lr" in record}
