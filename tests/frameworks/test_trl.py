"""TRL's SFTTrainer over feeds of packs: in one process, and in two that are killed and resumed."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM
from trl import SFTConfig, SFTTrainer

import penstock
from penstock import Feed
from penstock.integrations.transformers import FeedTrainer
from tests.frameworks.chats import global_batches, write_chats
from tests.frameworks.plainloop import losses_alone, mean_loss, reported, same, train, weights
from tests.frameworks.runs import Run, resumes, torchrun, trained

STEPS = 12
NAME = "TRL"

Configs = tuple[Path, Path]


class FeedSFTTrainer(FeedTrainer, SFTTrainer):
    """As documented."""


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Configs:
    return write_chats(tmp_path_factory.mktemp("packs"), {"pack": True, "max_length": 128})


def opened(config: Path, **keys: Any) -> Feed:
    return penstock.chat(config, rank=0, world=1, **keys)


def new_tokenizer(config: Path) -> Any:
    return AutoTokenizer.from_pretrained(config.parent / "tokenizer")


def new_model(config: Path) -> Qwen3ForCausalLM:
    """The model of the example, with the same first weights."""
    torch.manual_seed(0)
    size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    vocabulary = len(new_tokenizer(config))
    return Qwen3ForCausalLM(Qwen3Config(vocab_size=vocabulary, num_key_value_heads=2, head_dim=16, **size))


def trainer_of(config: Path, folder: Path, model: Any = None, args: Any = None, **keys: Any) -> FeedSFTTrainer:
    own = {"learning_rate": 1e-3, "bf16": False, "use_cpu": True, "report_to": "none", "save_strategy": "no"}
    feeds = {name: keys.pop(name) for name in ("train_dataset", "eval_dataset") if name in keys}
    return FeedSFTTrainer(
        model or new_model(config),
        SFTConfig(output_dir=str(folder), **{**own, **keys}),
        processing_class=new_tokenizer(config),
        **feeds,
    )


@pytest.mark.shows(NAME, "accumulation")
@pytest.mark.parametrize("flat", [False, True])
def test_training_on_packs_is_that_of_a_plain_loop(configs: Configs, tmp_path: Path, flat: bool) -> None:
    feed = opened(configs[0], flat=flat)
    keys = {"max_steps": 3, "gradient_accumulation_steps": 2, "logging_steps": 1}
    trainer = trainer_of(configs[0], tmp_path, train_dataset=feed, **keys)
    trainer.train()
    expected, losses = train(new_model(configs[0]), opened(configs[0]), 3, 2)
    assert [line["loss"] for line in trainer.state.log_history if "loss" in line] == pytest.approx(losses, rel=1e-4)
    torch.testing.assert_close(weights(trainer.model), expected, rtol=0, atol=2e-5)


@pytest.mark.shows(NAME, "evaluation")
def test_the_loss_of_an_evaluation_is_the_mean_over_its_labels(configs: Configs, tmp_path: Path) -> None:
    model = new_model(configs[1])
    expected = mean_loss(model, opened(configs[1], pack=False))
    for size in (1, 4):
        feed = opened(configs[1], global_batch_size=size)
        trainer = trainer_of(configs[1], tmp_path, new_model(configs[1]), train_dataset=feed, max_steps=1)
        assert trainer.evaluate(feed)["eval_loss"] == pytest.approx(expected, rel=1e-5)


@contextmanager
def started(configs: Configs, folder: Path, processes: int = 2) -> Iterator[Run]:
    """The example as a user starts it, and starts it again."""
    more = ("--steps", STEPS)
    with torchrun("trl_sft.py", *configs, folder, *more, folder=folder, processes=processes) as run:
        yield run


@pytest.fixture(scope="module")
def whole(configs: Configs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without a stop."""
    folder = tmp_path_factory.mktemp("whole")
    with started(configs, folder) as run:
        run.finish()
    return folder


@pytest.fixture(scope="module")
def killed(configs: Configs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    with started(configs, folder) as run:
        run.kill_after(6)
    return folder


def resumed(configs: Configs, killed: Path, folder: Path, processes: int) -> Path:
    """Resume a copy of a killed run."""
    shutil.copytree(killed, folder)
    with started(configs, folder, processes) as run:
        run.finish()
    return folder


@pytest.mark.shows(NAME, "two processes")
@pytest.mark.shows(NAME, "mixture")
@pytest.mark.shows(NAME, "endless run")
def test_two_processes_train_as_one_on_the_whole_batch(configs: Configs, whole: Path) -> None:
    assert trained(whole) == global_batches(opened(configs[0]), STEPS)
    expected, _ = train(new_model(configs[0]), opened(configs[0]), STEPS)
    torch.testing.assert_close(load_file(whole / "model.safetensors"), expected, rtol=0, atol=1e-4)


@pytest.mark.shows(NAME, "evaluation")
def test_an_evaluation_on_two_processes_is_that_on_one(configs: Configs, whole: Path) -> None:
    feed = opened(configs[1])
    assert trained(whole, "evaluated") == global_batches(feed, len(feed))
    state = json.loads((whole / f"checkpoint-{STEPS}" / "trainer_state.json").read_text())
    found = {line["step"]: line["eval_loss"] for line in state["log_history"] if "eval_loss" in line}
    models = {step: Qwen3ForCausalLM.from_pretrained(whole / f"checkpoint-{step}") for step in (10, STEPS)}
    alone = opened(configs[1], pack=False)
    assert found == pytest.approx({step: mean_loss(model, alone) for step, model in models.items()}, rel=1e-5)


def test_losses_of_samples_are_reported(configs: Configs, tmp_path: Path) -> None:
    feed = opened(configs[0], usage={"log": tmp_path / "usage.jsonl", "every": 2})
    model = new_model(configs[0])
    own = {"learning_rate": 0.0, "bf16": False, "use_cpu": True, "report_to": "none", "save_strategy": "no"}
    FeedSFTTrainer(
        model,
        SFTConfig(output_dir=str(tmp_path), max_steps=2, gradient_accumulation_steps=2, **own),
        processing_class=new_tokenizer(configs[0]),
        train_dataset=feed,
        report=True,
    ).train()
    feed.close()
    found = reported(tmp_path / "usage.jsonl")
    assert found.keys() == set(range(4))
    for step, losses in found.items():
        assert losses == pytest.approx(losses_alone(new_model(configs[0]), feed.batch(step)), rel=1e-4)


@pytest.mark.shows(NAME, "checkpoint and resume")
@pytest.mark.shows(NAME, "kill -9")
@pytest.mark.shows(NAME, "same weights")
def test_a_killed_run_resumes_with_the_same_batches_and_weights(
    configs: Configs, whole: Path, killed: Path, tmp_path: Path
) -> None:
    again = resumed(configs, killed, tmp_path / "again", processes=2)
    assert resumes(again) in ([5], [10])
    assert trained(again) == trained(whole)
    assert same(load_file(again / "model.safetensors"), load_file(whole / "model.safetensors"))


@pytest.mark.shows(NAME, "resume on another world")
def test_a_killed_run_resumes_on_one_process(configs: Configs, whole: Path, killed: Path, tmp_path: Path) -> None:
    again = resumed(configs, killed, tmp_path / "again", processes=1)
    assert resumes(again) in ([5], [10])
    assert trained(again) == trained(whole)


def test_a_feed_without_the_class_is_refused_by_trl(configs: Configs, tmp_path: Path) -> None:
    args = SFTConfig(output_dir=str(tmp_path), max_steps=1, bf16=False, use_cpu=True, report_to="none")
    with pytest.raises(TypeError, match="`train_dataset` must be a `Dataset` or `IterableDataset`, got `Feed`"):
        SFTTrainer(
            new_model(configs[0]), args, train_dataset=opened(configs[0]), processing_class=new_tokenizer(configs[0])
        )


def test_an_endless_run_without_steps_is_refused(configs: Configs, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="this feed is endless, so num_train_epochs has no meaning: set max_steps"):
        trainer_of(configs[0], tmp_path, train_dataset=opened(configs[0]), num_train_epochs=2)
