"""Accelerate: a loader passes through ``prepare`` as it is, and is saved by ``register_for_checkpointing``."""

import json
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from accelerate import Accelerator
from accelerate.data_loader import prepare_data_loader
from safetensors.torch import load_file
from torch.utils.data import DataLoader

import penstock
from penstock import Feed
from tests.feed.test_parts import write_clips
from tests.frameworks.runs import planned, resumes, steps_of, torchrun, trained
from tests.shards import small_run, write_shards


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)
    return folder


def opened(folder: Path, rank: int = 0, world: int = 1, **options: Any) -> Feed:
    return penstock.open(small_run(folder, global_batch_size=6, **options), rank=rank, world=world)


def test_prepare_leaves_a_feed_and_a_loader_as_they_are_also_twice(folder: Path) -> None:
    accelerator = Accelerator(cpu=True)
    feed = opened(folder)
    with feed.loader() as loader:
        assert accelerator.prepare(loader) is accelerator.prepare(accelerator.prepare(loader)) is loader
        assert accelerator.prepare(feed) is feed
        model = torch.nn.Linear(2, 2)
        _, _, same = accelerator.prepare(model, torch.optim.SGD(model.parameters()), loader)
        assert [batch["step"] for batch in islice(same, 3)] == [0, 1, 2]


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("options", [{}, {"dispatch_batches": True, "put_on_device": True}], ids=str)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_prepared_data_loader_says_what_to_do(
    folder: Path, processes: int, options: dict[str, Any], workers: int
) -> None:
    Accelerator(cpu=True)
    feed = opened(folder, world=processes)
    loader: DataLoader[Any] = DataLoader(feed, batch_size=None, sampler=feed.steps(3), num_workers=workers)  # type: ignore[arg-type]
    prepared = prepare_data_loader(loader, num_processes=processes, process_index=0, **options)
    twice = Accelerator(cpu=True).prepare(prepared)
    for each in (prepared, twice):
        with pytest.raises(RuntimeError, match=r"can't be passed to accelerator\.prepare.*iterate over feed\.loader"):
            next(iter(each))


@pytest.mark.shows("Accelerate", "endless run")
def test_a_loader_is_saved_and_loaded_with_the_state_of_the_accelerator(folder: Path, tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True)
    with opened(folder).loader(threads=2) as loader:
        accelerator.register_for_checkpointing(loader)
        for _ in range(5):
            next(loader)
        accelerator.save_state(tmp_path / "five")
        next(loader)
    again = Accelerator(cpu=True)
    with opened(folder, rank=1, world=2).loader(threads=0) as loader:
        again.register_for_checkpointing(loader)
        again.load_state(tmp_path / "five")
        assert next(loader)["ids"] == opened(folder).batch(5)["ids"][3:]


def test_a_state_of_another_mixture_is_refused(folder: Path, tmp_path: Path) -> None:
    accelerator = Accelerator(cpu=True)
    with opened(folder).loader(threads=0) as loader:
        next(loader)
        accelerator.register_for_checkpointing(loader)
        accelerator.save_state(tmp_path / "one")
    again = Accelerator(cpu=True)
    weights = {"assamese": 2, "bengali": 1, "gujarati": 1}
    with opened(folder, mixture={"weights": weights}).loader(threads=0) as loader:
        again.register_for_checkpointing(loader)
        with pytest.raises(penstock.StateError, match="another run: it differs in mixture"):
            again.load_state(tmp_path / "one")


def test_a_feed_can_not_be_registered_in_place_of_its_loader(folder: Path) -> None:
    with pytest.raises(ValueError, match="must include a `state_dict` and `load_state_dict`"):
        Accelerator(cpu=True).register_for_checkpointing(opened(folder))


def test_a_world_that_does_not_divide_the_batch_is_refused(folder: Path) -> None:
    with (
        opened(folder, rank=0, world=4).loader(threads=0) as loader,
        pytest.raises(ValueError, match="a global batch of 6 does not divide over 4 ranks"),
    ):
        next(loader)


class Example:
    """examples/frameworks/accelerate_speech.py, its data, and the folder of an uninterrupted run."""

    steps = 180
    save_every = 6

    def __init__(self, folder: Path) -> None:
        write_clips(folder, {"hindi": [5, 4], "tamil": [6], "odia": [3]})
        run = json.loads(json.dumps(small_run(folder, global_batch_size=4, seed=5), default=str))
        self.config = folder / "run.yaml"
        self.config.write_text(yaml.safe_dump(run))
        self.whole = folder / "whole"

    def run(self, folder: Path, **options: Any) -> Any:
        args = (self.config, self.config, folder, f"--steps={self.steps}")
        return torchrun("accelerate_speech.py", *args, folder=folder, **options)

    def require_whole(self, folder: Path) -> None:
        """Assert that a run has trained on the batches of the plan, and evaluated each clip once."""
        assert trained(folder) == planned(penstock.speech(self.config), self.steps)
        assert trained(folder, "evaluated") == planned(penstock.speech(self.config, passes=1), 5)  # 18 clips
        assert all(step % self.save_every == 0 for step in resumes(folder))

    def weights(self, folder: Path) -> dict[str, torch.Tensor]:
        return load_file(folder / f"step-{self.steps:06}" / "model.safetensors")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    example = Example(tmp_path_factory.mktemp("accelerate"))
    with example.run(example.whole) as run:
        run.finish()
    return example


@pytest.mark.shows("Accelerate", "two processes")
@pytest.mark.shows("Accelerate", "mixture")
@pytest.mark.shows("Accelerate", "evaluation")
@pytest.mark.shows("Accelerate", "accumulation")
def test_two_processes_train_on_the_batches_of_the_plan(example: Example) -> None:
    example.require_whole(example.whole)
    assert resumes(example.whole) == []


@pytest.mark.shows("Accelerate", "checkpoint and resume")
@pytest.mark.shows("Accelerate", "kill -9")
@pytest.mark.shows("Accelerate", "same weights")
@pytest.mark.shows("Accelerate", "resume on another world")
def test_a_killed_run_goes_on_from_its_checkpoint_also_on_another_world(example: Example, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    with example.run(folder) as run:
        run.kill_after(14)
    assert max(steps_of(folder, 0)) < example.steps - 1, "killed too late"
    alone = shutil.copytree(folder, tmp_path / "alone")
    with example.run(folder) as run:
        run.finish()
    example.require_whole(folder)
    ours, theirs = example.weights(folder), example.weights(example.whole)
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    with example.run(alone, processes=1) as run:
        run.finish()
    example.require_whole(alone)
