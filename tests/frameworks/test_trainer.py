"""transformers' Trainer over feeds: in one process, and in two that are killed and resumed."""

import json
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AutoTokenizer, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

import penstock
from penstock import Feed, StateError
from penstock.integrations.transformers import STATE_FILE, FeedTrainer, ModelInputs, last_checkpoint
from tests.frameworks.chats import global_batches, ids_in, write_chats
from tests.frameworks.plainloop import losses_alone, mean_loss, reported, same, train, weights
from tests.frameworks.runs import Run, resumes, torchrun, trained

STEPS = 12
ACCUMULATE = 2
NAME = "transformers Trainer"

Configs = tuple[Path, Path]


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Configs:
    return write_chats(tmp_path_factory.mktemp("chat"), {"count_labels": True})


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> Configs:
    return write_chats(tmp_path_factory.mktemp("packs"), {"pack": True, "max_length": 128})


def opened(config: Path, **keys: Any) -> Feed:
    return penstock.open(config, rank=0, world=1, **keys)


def new_model(config: Path, dropout: float = 0.0) -> LlamaForCausalLM:
    """The model of the example, with the same first weights."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(config.parent / "tokenizer")
    size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), attention_dropout=dropout, **size))


def arguments(folder: Path, **keys: Any) -> TrainingArguments:
    own = {"learning_rate": 1e-3, "use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no"}
    return TrainingArguments(output_dir=str(folder), **{**own, **keys})


class Noting(FeedTrainer):
    """Keeps the ids of the batches that it was trained on, by step."""

    def training_step(self, model: Any, inputs: ModelInputs, num_items_in_batch: Any = None) -> Any:
        self.noted = [*getattr(self, "noted", []), (inputs.batch["step"], ids_in(inputs.batch))]
        return super().training_step(model, inputs, num_items_in_batch)


@pytest.mark.shows(NAME, "accumulation")
@pytest.mark.parametrize("accumulate", [1, 3])
def test_training_is_that_of_a_plain_loop(configs: Configs, tmp_path: Path, accumulate: int) -> None:
    args = arguments(tmp_path, max_steps=4, gradient_accumulation_steps=accumulate, logging_steps=1)
    trainer = Noting(new_model(configs[0]), args, train_dataset=opened(configs[0]))
    trainer.train()
    expected, losses = train(new_model(configs[0]), opened(configs[0]), 4, accumulate)
    assert [line["loss"] for line in trainer.state.log_history if "loss" in line] == pytest.approx(losses, rel=1e-4)
    torch.testing.assert_close(weights(trainer.model), expected, rtol=0, atol=2e-5)
    assert dict(trainer.noted) == global_batches(opened(configs[0]), 4 * accumulate)


@pytest.mark.parametrize("rows", ["configs", "packs"])
def test_losses_of_samples_are_reported(rows: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    config, held_out = request.getfixturevalue(rows)
    feed = opened(config, usage={"log": tmp_path / "usage.jsonl", "every": 2})
    keys = {"max_steps": 3, "gradient_accumulation_steps": 2, "learning_rate": 0.0, "eval_strategy": "steps"}
    args = arguments(tmp_path, **keys, eval_steps=2)
    model = new_model(config)
    FeedTrainer(model, args, train_dataset=feed, eval_dataset=opened(held_out), report=True).train()
    feed.close()
    found = reported(tmp_path / "usage.jsonl")
    assert found.keys() == set(range(6))
    for step, losses in found.items():
        assert losses == pytest.approx(losses_alone(model, feed.batch(step)), rel=1e-4)


def test_losses_are_not_reported_without_a_ledger(configs: Configs, tmp_path: Path) -> None:
    trainer = FeedTrainer(
        new_model(configs[0]), arguments(tmp_path, max_steps=1), train_dataset=opened(configs[0]), report=True
    )
    with pytest.raises(ValueError, match="the run has none: add `usage: "):
        trainer.train()


def test_a_resumed_run_has_the_dropout_of_an_uninterrupted_one(configs: Configs, tmp_path: Path) -> None:
    keys = {"max_steps": 6, "save_strategy": "steps", "save_steps": 3, "gradient_accumulation_steps": 2}
    whole = FeedTrainer(new_model(configs[0], 0.1), arguments(tmp_path, **keys), train_dataset=opened(configs[0]))
    whole.train()
    args = arguments(tmp_path / "again", **keys)
    again = Noting(new_model(configs[0], 0.1), args, train_dataset=opened(configs[0]))
    again.train(resume_from_checkpoint=tmp_path / "checkpoint-3")
    assert [step for step, _ in again.noted] == [*range(6, 12)]
    assert same(weights(again.model), weights(whole.model))


def test_a_finished_run_trains_on_nothing_more(configs: Configs, tmp_path: Path) -> None:
    args = arguments(tmp_path, max_steps=2, save_strategy="steps", save_steps=2)
    FeedTrainer(new_model(configs[0]), args, train_dataset=opened(configs[0])).train()
    again = Noting(new_model(configs[0]), args, train_dataset=opened(configs[0]))
    again.train(resume_from_checkpoint=True)
    assert not hasattr(again, "noted") and again.state.global_step == 2


@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_a_run_goes_on_with_another_accumulation(configs: Configs, tmp_path: Path, accumulate: int) -> None:
    keys = {"save_strategy": "steps", "save_steps": 2}
    args = arguments(tmp_path, max_steps=2, gradient_accumulation_steps=2, **keys)
    FeedTrainer(new_model(configs[0]), args, train_dataset=opened(configs[0])).train()
    args = arguments(tmp_path, max_steps=5, gradient_accumulation_steps=accumulate, **keys)
    for first, last in ((4, 4 + 2 * accumulate), (4 + 2 * accumulate, 4 + 3 * accumulate)):
        again = Noting(new_model(configs[0]), args, train_dataset=opened(configs[0]))
        again.args.max_steps = 4 if last == 4 + 2 * accumulate else 5
        again.train(resume_from_checkpoint=last_checkpoint(tmp_path))
        assert [step for step, _ in again.noted] == [*range(first, last)]


def test_a_finite_run_has_every_item_once_with_its_tail(configs: Configs, tmp_path: Path) -> None:
    """11 items in 6 batches, 4 per optimizer step: the second has 2 batches, and the last of them one item."""
    keys = {"num_train_epochs": 1, "gradient_accumulation_steps": 4, "save_strategy": "steps", "save_steps": 1}
    feed = opened(configs[1], global_batch_size=2)
    whole = Noting(new_model(configs[1]), arguments(tmp_path, **keys), train_dataset=feed)
    whole.train()
    assert [step for step, _ in whole.noted] == [*range(6)]
    assert sorted(id for _, ids in whole.noted for id in ids) == sorted(map(str, range(11)))
    again = Noting(new_model(configs[1]), arguments(tmp_path / "again", **keys), train_dataset=feed)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    assert again.noted == whole.noted[4:]
    assert same(weights(again.model), weights(whole.model))
    states = [json.loads((tmp_path / f"checkpoint-{number}" / STATE_FILE).read_text()) for number in (1, 2)]
    assert [state["step"] for state in states] == [4, 6]
    end = Noting(new_model(configs[1]), arguments(tmp_path, **keys), train_dataset=feed)
    end.train(resume_from_checkpoint=True)
    assert not hasattr(end, "noted")


@pytest.mark.shows(NAME, "evaluation")
def test_the_loss_of_an_evaluation_is_the_mean_over_its_labels(
    configs: Configs, packs: Configs, tmp_path: Path
) -> None:
    model = new_model(configs[1])
    expected = mean_loss(model, opened(configs[1]))
    for rows in (configs, packs):
        for size in (1, 4):
            feed = opened(rows[1], global_batch_size=size)
            trainer = FeedTrainer(model, arguments(tmp_path), eval_dataset={"one": feed, "two": feed})
            metrics = trainer.evaluate()
            assert metrics["eval_one_loss"] == metrics["eval_two_loss"] == pytest.approx(expected, rel=1e-5)
            assert trainer.evaluate(feed)["eval_loss"] == pytest.approx(expected, rel=1e-5)


def test_a_model_gets_the_fields_that_it_takes(configs: Configs, packs: Configs, tmp_path: Path) -> None:
    names = {}
    for rows in (configs, packs):
        trainer = FeedTrainer(new_model(rows[0]), arguments(tmp_path, max_steps=1), train_dataset=opened(rows[0]))
        inputs = next(iter(trainer.get_train_dataloader()))
        names[rows] = set(inputs)
        assert inputs.batch["step"] == 0 and inputs.batch["global_label_tokens"]
    assert names[configs] == {"input_ids", "attention_mask", "labels"}
    lengths = {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"}
    assert names[packs] == {"input_ids", "position_ids", "labels"} | lengths
    assert inputs["cu_seq_lens_q"] is inputs.batch["cu_seqlens"]


def by_lengths(module: Any, q: Any, k: Any, v: Any, mask: None, **options: Any) -> tuple[torch.Tensor, None]:
    """Attention as flash attention has it: of the concatenated rows, each sample alone, by ``cu_seq_lens_q``."""
    assert options["cu_seq_lens_q"] is options["cu_seq_lens_k"]
    assert options["max_length_q"] == options["max_length_k"] == options["cu_seq_lens_q"].diff().max()
    rows, heads, length, size = q.shape
    joined = [each.transpose(0, 1).reshape(heads, rows * length, size) for each in (q, k, v)]
    bounds = pairwise(options["cu_seq_lens_q"].tolist())
    parts = [scaled_dot_product_attention(*(each[:, a:b] for each in joined), is_causal=True) for a, b in bounds]
    return torch.cat(parts, dim=1).reshape(heads, rows, length, size).permute(1, 2, 0, 3), None


@pytest.mark.parametrize("flat", [False, True])
def test_attention_over_variable_lengths_sees_each_sample_alone(
    configs: Configs, packs: Configs, tmp_path: Path, flat: bool
) -> None:
    expected = mean_loss(new_model(configs[1]), opened(configs[1]))
    AttentionInterface.register("by_lengths", by_lengths)
    model = new_model(packs[1])
    model.set_attn_implementation("by_lengths")
    feed = penstock.chat(packs[1], rank=0, world=1, flat=flat)
    trainer = FeedTrainer(model, arguments(tmp_path), eval_dataset=feed)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected, rel=1e-5)


@contextmanager
def started(configs: Configs, folder: Path, processes: int = 2) -> Iterator[Run]:
    """The example as a user starts it, and starts it again."""
    more = ("--steps", STEPS, "--accumulate", ACCUMULATE)
    with torchrun("trainer_chat.py", *configs, folder, *more, folder=folder, processes=processes) as run:
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
        run.kill_after(5 * ACCUMULATE + 3)
    return folder


def resumed(configs: Configs, killed: Path, folder: Path, processes: int) -> Path:
    """Resume a copy of a killed run."""
    shutil.copytree(killed, folder)
    with started(configs, folder, processes) as run:
        run.finish()
    return folder


def logged(folder: Path) -> list[dict[str, Any]]:
    """What the Trainer logged, by its last checkpoint."""
    state = json.loads((folder / f"checkpoint-{STEPS}" / "trainer_state.json").read_text())
    return list(state["log_history"])


@pytest.mark.shows(NAME, "two processes")
@pytest.mark.shows(NAME, "mixture")
@pytest.mark.shows(NAME, "endless run")
@pytest.mark.shows(NAME, "accumulation")
def test_two_processes_train_as_one_on_the_whole_batch(configs: Configs, whole: Path) -> None:
    assert trained(whole) == global_batches(opened(configs[0]), STEPS * ACCUMULATE)
    expected, losses = train(new_model(configs[0]), opened(configs[0]), STEPS, ACCUMULATE)
    torch.testing.assert_close(load_file(whole / "model.safetensors"), expected, rtol=0, atol=1e-4)
    found = [line["loss"] for line in logged(whole) if "loss" in line]
    assert found == pytest.approx([math.fsum(losses[:5]) / 5, math.fsum(losses[5:10]) / 5], rel=1e-3)


@pytest.mark.shows(NAME, "evaluation")
def test_an_evaluation_on_two_processes_is_that_on_one(configs: Configs, whole: Path) -> None:
    feed = opened(configs[1])
    assert trained(whole, "evaluated") == global_batches(feed, 3)
    found = {line["step"]: line["eval_loss"] for line in logged(whole) if "eval_loss" in line}
    models = {step: LlamaForCausalLM.from_pretrained(whole / f"checkpoint-{step}") for step in (10, STEPS)}
    assert found == pytest.approx({step: mean_loss(model, feed) for step, model in models.items()}, rel=1e-5)


@pytest.mark.shows(NAME, "checkpoint and resume")
@pytest.mark.shows(NAME, "kill -9")
@pytest.mark.shows(NAME, "same weights")
def test_a_killed_run_resumes_with_the_same_batches_and_weights(
    configs: Configs, whole: Path, killed: Path, tmp_path: Path
) -> None:
    again = resumed(configs, killed, tmp_path / "again", processes=2)
    assert resumes(again) in ([10], [20])
    assert trained(again) == trained(whole)
    assert same(load_file(again / "model.safetensors"), load_file(whole / "model.safetensors"))


@pytest.mark.shows(NAME, "resume on another world")
def test_a_killed_run_resumes_on_one_process(configs: Configs, whole: Path, killed: Path, tmp_path: Path) -> None:
    again = resumed(configs, killed, tmp_path / "again", processes=1)
    assert resumes(again) in ([10], [20])
    assert trained(again) == trained(whole)


@pytest.mark.parametrize("which", [0, 1])
def test_a_plain_trainer_refuses_a_feed(configs: Configs, tmp_path: Path, which: int) -> None:
    trainer = Trainer(new_model(configs[0]), arguments(tmp_path, max_steps=1), train_dataset=opened(configs[which]))
    with pytest.raises(RuntimeError, match=r"gives each rank its own batches already; .* use FeedTrainer"):
        trainer.train()


def test_a_loader_where_a_feed_is_due_is_refused(configs: Configs, tmp_path: Path) -> None:
    with (
        opened(configs[0]).loader() as loader,
        pytest.raises(TypeError, match="train_dataset is a loader; pass its feed"),
    ):
        FeedTrainer(new_model(configs[0]), arguments(tmp_path), train_dataset=loader)
    with pytest.raises(TypeError, match=r"eval_dataset must be a feed, .* not list"):
        FeedTrainer(new_model(configs[0]), arguments(tmp_path), eval_dataset=[1])


@pytest.mark.parametrize(
    ("which", "keys", "message"),
    [
        (0, {"num_train_epochs": 2}, "this feed is endless, so num_train_epochs has no meaning: set max_steps"),
        (1, {"num_train_epochs": 2}, r"ends after its passes \(1\), and num_train_epochs is 2: set num_train_epochs=1"),
        (1, {"max_steps": 4}, "max_steps=4 needs 4 batches, and this feed ends after 3"),
    ],
)
def test_more_steps_than_the_feed_has_are_refused(
    configs: Configs, tmp_path: Path, which: int, keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        FeedTrainer(new_model(configs[0]), arguments(tmp_path, **keys), train_dataset=opened(configs[which]))


def test_an_endless_evaluation_is_refused(configs: Configs, tmp_path: Path) -> None:
    trainer = FeedTrainer(new_model(configs[0]), arguments(tmp_path), eval_dataset=opened(configs[0]))
    with pytest.raises(ValueError, match="this eval_dataset is endless: set passes: 1"):
        trainer.evaluate()


def test_a_checkpoint_of_another_mixture_is_refused(configs: Configs, tmp_path: Path) -> None:
    args = arguments(tmp_path, max_steps=2, save_strategy="steps", save_steps=2)
    FeedTrainer(new_model(configs[0]), args, train_dataset=opened(configs[0])).train()
    other = opened(configs[0], mixture={"weights": {"sums": 1, "words": 1}})
    again = FeedTrainer(new_model(configs[0]), args, train_dataset=other)
    with pytest.raises(StateError, match=r"checkpoint-2/penstock.json: .*another run: it differs in mixture"):
        again.train(resume_from_checkpoint=True)
    (tmp_path / "checkpoint-2" / STATE_FILE).unlink()
    with pytest.raises(StateError, match=r"has no penstock.json: it was not saved by a FeedTrainer"):
        again.train(resume_from_checkpoint=True)


def test_skipping_no_data_is_refused(configs: Configs, tmp_path: Path) -> None:
    args = arguments(tmp_path, max_steps=2, save_strategy="steps", save_steps=2, ignore_data_skip=True)
    trainer = FeedTrainer(new_model(configs[0]), args, train_dataset=opened(configs[0]))
    trainer.train()
    with pytest.raises(ValueError, match="ignore_data_skip=True would begin with the first batch again"):
        trainer.train(resume_from_checkpoint=True)


def test_a_world_that_does_not_divide_the_batch_is_refused(configs: Configs, tmp_path: Path) -> None:
    feed = penstock.open(configs[0], rank=0, world=3)
    trainer = FeedTrainer(new_model(configs[0]), arguments(tmp_path, max_steps=1), train_dataset=feed)
    with pytest.raises(ValueError, match="a global batch of 4 does not divide over 3 ranks"):
        trainer.train()


def test_a_checkpoint_that_was_being_written_is_left_out(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path) is None
    for number, text in ((5, "{}"), (10, "{}"), (15, '{"global_')):
        (tmp_path / f"checkpoint-{number}").mkdir()
        (tmp_path / f"checkpoint-{number}" / "trainer_state.json").write_text(text)
    (tmp_path / "checkpoint-20").mkdir()
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")
