"""Losses of samples from losses of tokens, in every kind of row; and from there to the record, through the ledger."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy, pad

import penstock
from penstock.observe.runlog import RunLog
from penstock.observe.spikes import find_spikes
from tests.recipes.chat_runs import run, write_questions
from tests.recipes.test_chat import ROWS


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_questions(tmp_path_factory.mktemp("questions"))


def token_losses(batch: dict[str, Any], shape: str) -> torch.Tensor:
    """Losses of a model that knows only which token came before, so that rows of any kind have the same."""
    table = torch.rand(600, 600, generator=torch.Generator().manual_seed(1))
    logits = table[batch["input_ids"]]
    labels = batch["labels"]
    if shape == "padded":  # as in transformers: a loss per token, that of the next one
        return cross_entropy(logits.transpose(1, 2), pad(labels, (0, 1), value=-100)[:, 1:], reduction="none")
    losses = cross_entropy(logits[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none")
    return losses.flatten() if shape == "flat" else losses if shape == "shifted" else pad(losses, (1, 0))


@pytest.mark.parametrize("shape", ["shifted", "flat", "padded", "at its token"])
@pytest.mark.parametrize("kind", ROWS)
def test_a_sample_has_one_loss_however_it_lies_in_a_row(questions: Path, kind: str, shape: str) -> None:
    batch = run(questions, **ROWS[kind]).batch(1)
    found = penstock.per_sample_loss(token_losses(batch, shape), batch)
    alone = {text: loss for step in range(6) for text, loss in _alone(questions, step)}
    expected = torch.tensor([alone[text] for text in batch["text"]])
    torch.testing.assert_close(found, expected)


def _alone(questions: Path, step: int) -> list[tuple[str, float]]:
    batch = run(questions).batch(step)
    losses = token_losses(batch, "shifted")
    trained = (batch["labels"] != -100).sum(1)
    return list(zip(batch["text"], (losses.sum(1) / trained).tolist(), strict=True))


@pytest.mark.parametrize("kind", ["longest", "padding-free", "packs", "flat packs"])
def test_the_record_with_the_highest_loss_is_found_by_its_number(tmp_path: Path, kind: str) -> None:
    path = write_questions(tmp_path)
    (tmp_path / "7.png").write_bytes(b"no image")  # becomes padding of its pack, or is replaced
    feed = run(path, usage={"log": tmp_path / "usage.jsonl", "every": 3}, **ROWS[kind])
    with feed.loader(threads=0) as loader:
        for _ in range(12):
            batch = next(loader)
            losses = penstock.per_sample_loss(token_losses(batch, "shifted"), batch)
            hard = torch.tensor(["number 11?" in text for text in batch["text"]])
            feed.report(batch["step"], torch.where(hard, 50.0, losses))
    feed.close()
    found = find_spikes(RunLog([tmp_path / "usage.jsonl"], feed), feed)
    assert found.unplaced == 0
    assert (found.samples[0].name, found.samples[0].loss) == ("a.jsonl:11", 50)
    assert found.samples[0].uses > 1 and found.samples[1].loss < 20


def test_losses_that_do_not_fit_are_refused() -> None:
    batch = {"labels": torch.zeros(2, 5, dtype=torch.int64)}
    with pytest.raises(ValueError, match=r"\[3, 5\] for labels of shape \[2, 5\]"):
        penstock.per_sample_loss(torch.zeros(3, 5), batch)
    with pytest.raises(ValueError, match="no field 'cu_seqlens'"):
        penstock.per_sample_loss(torch.zeros(2, 5), {**batch, "sequence_ids": torch.ones(2, 5)})


def test_without_labels_it_is_the_mean_of_all_that_belongs_to_a_sample() -> None:
    losses = torch.arange(12.0, requires_grad=True).reshape(2, 3, 2)
    found = penstock.per_sample_loss(losses, {"action": None})
    assert found.tolist() == [2.5, 8.5] and not found.requires_grad
