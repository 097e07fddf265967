"""Batches by length in frameworks: one step of a trainer takes all batches that its rank has in a step."""

import json
import shutil
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torchdata.stateful_dataloader import StatefulDataLoader
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, TrainingArguments

import penstock
from penstock import Feed
from penstock.integrations.transformers import FeedTrainer
from tests.clips import clip_run, write_clips
from tests.frameworks.chats import write_chats
from tests.frameworks.plainloop import losses_alone, reported, same, sum_of_losses, weights
from tests.frameworks.runs import lines, planned, resumes, torchrun, trained

SCRIPT = Path(__file__).parent / "lightning_lengths.py"
STEPS = 14
RANKS = 2


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four units per step, and windows so unlike that some steps have additional units."""
    folder = tmp_path_factory.mktemp("clips")
    write_clips(folder)
    run = clip_run(folder, batch={"seconds": 12, "units": 4, "window": 48})
    text = json.dumps(
        {**run, "filelist": str(run["filelist"]), "cache": {**run["cache"], "dir": str(folder / "cache")}}
    )
    (folder / "train.yaml").write_text(yaml.safe_dump(json.loads(text)))
    return folder / "train.yaml"


def opened(config: Path, rank: int = 0, world: int = 1, **keys: Any) -> Feed:
    return penstock.open(config, rank=rank, world=world, **keys)


@pytest.fixture(autouse=True)
def _theirs() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*set_vital.*")
        yield


def loaded(feed: Feed, workers: int, start: int = 0, **options: Any) -> "StatefulDataLoader[Any]":
    more = {"multiprocessing_context": "fork"} if workers else {}
    return StatefulDataLoader(feed, batch_size=None, sampler=feed.steps(start), num_workers=workers, **more, **options)


def ids(steps: "StatefulDataLoader[Any]", number: int) -> list[list[str]]:
    return [[id for batch in units for id in batch["ids"]] for units in islice(steps, number)]


@pytest.mark.parametrize(("before", "after", "every"), [(0, 2, 1), (2, 0, 4)])
def test_a_stateful_dataloader_resumes_on_other_workers_and_ranks(
    config: Path, before: int, after: int, every: int
) -> None:
    whole = list(planned(opened(config), STEPS).values())
    loader = loaded(opened(config), before, snapshot_every_n_steps=every)
    assert ids(loader, 7) == whole[:7]
    batches = iter(loaded_again := loaded(opened(config), before, snapshot_every_n_steps=every))
    for _ in range(7):
        next(batches)
    state = json.loads(json.dumps(loaded_again.state_dict()))
    parts = []
    for rank in range(RANKS):
        feed = opened(config, rank, RANKS)
        parts.append(ids(loaded(feed, after, feed.resume(state)), STEPS - 7))
    assert [a + b for a, b in zip(*parts, strict=True)] == whole[7:]


@pytest.fixture(scope="module")
def killed(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Lightning run on two processes, killed after its ninth step. Its last checkpoint has 5."""
    folder = tmp_path_factory.mktemp("killed")
    with torchrun(SCRIPT, config, folder, STEPS, folder=folder) as run:
        run.kill_after(8)
    return folder


@pytest.mark.parametrize("processes", [1, RANKS])
def test_a_killed_lightning_run_resumes_with_the_planned_steps(
    config: Path, killed: Path, tmp_path: Path, processes: int
) -> None:
    folder = shutil.copytree(killed, tmp_path / "run")
    with torchrun(SCRIPT, config, folder, STEPS, folder=folder, processes=processes) as run:
        run.finish()
    assert trained(folder) == planned(opened(config), STEPS)
    assert resumes(folder) == [5]
    expected = [len(opened(config).units(step, 0, processes)) for step in range(9, STEPS)]
    assert [line["units"] for line in lines(folder, 0) if line["step"] >= 9] == expected


Chats = tuple[Path, Path]


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Chats:
    keys = {"batch": {"tokens": 300, "units": 2, "window": 32}, "global_batch_size": None}
    return write_chats(tmp_path_factory.mktemp("chat"), {"count_labels": True}, **keys)


def new_model(config: Path) -> LlamaForCausalLM:
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(config.parent / "tokenizer")
    size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **size))


def arguments(folder: Path, **keys: Any) -> TrainingArguments:
    own = {"learning_rate": 1e-3, "use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no"}
    return TrainingArguments(output_dir=str(folder), **{**own, **keys})


def test_a_feed_trainer_takes_the_steps_of_a_plain_loop(chats: Chats, tmp_path: Path) -> None:
    steps = 5
    args = arguments(tmp_path, max_steps=steps, logging_steps=1, optim="sgd", lr_scheduler_type="constant")
    trainer = FeedTrainer(new_model(chats[0]), args, train_dataset=opened(chats[0]))
    trainer.train()
    model = new_model(chats[0]).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    for step in range(steps):
        units = opened(chats[0]).units(step)
        assert len(units) >= 2
        loss = sum(sum_of_losses(model, batch) for batch in units) / units[0]["global_label_tokens"]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert [line["loss"] for line in trainer.state.log_history if "loss" in line] == pytest.approx(losses, rel=1e-4)
    torch.testing.assert_close(weights(trainer.model), weights(model), rtol=0, atol=2e-5)


def test_a_feed_trainer_resumes_with_the_same_weights_and_reports_every_sample(chats: Chats, tmp_path: Path) -> None:
    keys = {"max_steps": 6, "save_strategy": "steps", "save_steps": 3, "learning_rate": 0.0}
    feed = opened(chats[0], usage={"log": tmp_path / "usage.jsonl", "every": 2})
    whole = FeedTrainer(new_model(chats[0]), arguments(tmp_path, **keys), train_dataset=feed, report=True)
    whole.train()
    feed.close()
    found = reported(tmp_path / "usage.jsonl")
    assert found.keys() == set(range(6))
    for step, losses in found.items():
        alone = [loss for batch in feed.units(step) for loss in losses_alone(whole.model, batch)]
        assert losses == pytest.approx(alone, rel=1e-4)
    keys["learning_rate"] = 1e-3
    whole = FeedTrainer(new_model(chats[0]), arguments(tmp_path / "a", **keys), train_dataset=opened(chats[0]))
    whole.train()
    again = FeedTrainer(new_model(chats[0]), arguments(tmp_path / "b", **keys), train_dataset=opened(chats[0]))
    again.train(resume_from_checkpoint=tmp_path / "a" / "checkpoint-3")
    assert same(weights(again.model), weights(whole.model))


def test_a_feed_trainer_refuses_an_evaluation_by_length(chats: Chats, tmp_path: Path) -> None:
    held_out = opened(chats[1], global_batch_size=None, batch={"tokens": 300})
    trainer = FeedTrainer(new_model(chats[0]), arguments(tmp_path, max_steps=1), eval_dataset=held_out)
    with pytest.raises(ValueError, match="give this eval_dataset a batch_size"):
        trainer.evaluate()
