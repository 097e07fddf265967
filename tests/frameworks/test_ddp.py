"""DDP with checkpoints by torch.distributed.checkpoint: examples/frameworks/ddp_robot.py on real processes."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

import penstock
from tests.frameworks.runs import children, planned, resumes, steps_of, torchrun, trained
from tests.robots import write_robot

STEPS = 60
SAVE_EVERY = 5


class Example:
    """The example, its data, and the folder of an uninterrupted run."""

    def __init__(self, folder: Path) -> None:
        write_robot(folder / "arm", [9, 12, 7])
        write_robot(folder / "hand", [5, 8])
        sources = [{"name": name, "store": str(folder / name)} for name in ("arm", "hand")]
        run = {"recipe": "robot", "sources": sources, "cache": {"dir": str(folder / "cache"), "size": "1GB"}, "pool": 2}
        self.train = folder / "train.yaml"
        self.train.write_text(yaml.safe_dump({**run, "global_batch_size": 4, "mixture": {"weights": "equal"}}))
        self.evaluate = folder / "eval.yaml"
        self.evaluate.write_text(yaml.safe_dump({**run, "global_batch_size": 4, "sources": sources[:1]}))
        self.whole = folder / "whole"

    def run(self, folder: Path, **options: Any) -> Any:
        args = (self.train, self.evaluate, folder, f"--steps={STEPS}")
        return torchrun("ddp_robot.py", *args, folder=folder, **options)

    def require_whole(self, folder: Path) -> None:
        """Assert that a run has trained on the batches of the plan, and evaluated each frame once."""
        assert trained(folder) == planned(penstock.open(self.train), STEPS)
        feed = penstock.open(self.evaluate, passes=1)
        assert feed.plan.steps(feed.timeline(1)) == 7  # 28 frames
        assert trained(folder, "evaluated") == planned(feed, 7)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    example = Example(tmp_path_factory.mktemp("ddp"))
    with example.run(example.whole) as run:
        run.finish()
    yield example


def weights(folder: Path) -> dict[str, torch.Tensor]:
    file = folder / "weights.pt"
    dcp_to_torch_save(folder / f"step-{STEPS:06}", file)
    found: dict[str, torch.Tensor] = torch.load(file, weights_only=False)["model"]
    return found


def require_same_weights(folder: Path, other: Path) -> None:
    ours, theirs = weights(folder), weights(other)
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.shows("DDP", "two processes")
@pytest.mark.shows("DDP", "mixture")
@pytest.mark.shows("DDP", "evaluation")
@pytest.mark.shows("DDP", "endless run")
def test_two_processes_train_on_the_batches_of_the_plan(example: Example) -> None:
    example.require_whole(example.whole)
    assert resumes(example.whole) == []


@pytest.mark.shows("DDP", "checkpoint and resume")
@pytest.mark.shows("DDP", "kill -9")
@pytest.mark.shows("DDP", "same weights")
@pytest.mark.shows("DDP", "resume on another world")
def test_a_killed_run_goes_on_from_its_checkpoint_also_on_another_world(example: Example, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    with example.run(folder) as run:
        run.kill_after(17)
    assert max(steps_of(folder, 0)) < STEPS - 1, "killed too late"
    alone = shutil.copytree(folder, tmp_path / "alone")
    with example.run(folder) as run:
        run.finish()
    example.require_whole(folder)
    assert all(step % SAVE_EVERY == 0 for step in resumes(folder))  # none if it was killed right after a checkpoint
    require_same_weights(folder, example.whole)
    with example.run(alone, processes=1) as run:
        run.finish()
    example.require_whole(alone)


@pytest.mark.shows("torchrun restarts", "two processes")
@pytest.mark.shows("torchrun restarts", "kill -9")
@pytest.mark.shows("torchrun restarts", "same weights")
@pytest.mark.shows("torchrun restarts", "checkpoint and resume")
def test_torchrun_restarts_the_run_after_a_rank_was_killed(example: Example, tmp_path: Path) -> None:
    with example.run(tmp_path, restarts=2, TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1) as run:
        run.wait_for(17)
        os.kill(children(run.process.pid)[-1], signal.SIGKILL)
        assert "failed (exitcode: -9)" in run.finish()
    assert all(step % SAVE_EVERY == 0 for step in resumes(tmp_path))
    example.require_whole(tmp_path)
    require_same_weights(tmp_path, example.whole)
