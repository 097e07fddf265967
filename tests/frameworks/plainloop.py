"""A plain loop in one process over whole global batches of chat data: what a framework's training must come to."""

import json
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from penstock import Feed
from penstock.observe.placing import reports

Weights = dict[str, Tensor]

_MODEL_FIELDS = ("input_ids", "attention_mask", "position_ids")


def weights(model: nn.Module) -> Weights:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def same(one: Weights, other: Weights) -> bool:
    """Whether weights are equal, bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def train(model: nn.Module, feed: Feed, updates: int, accumulate: int = 1) -> tuple[Weights, list[float]]:
    """Train with AdamW, a rate that falls to 0 and clipped gradients, as the Trainer does.

    Args:
        model: Model to train.
        feed: Feed, opened for one rank.
        updates: Number of optimizer steps.
        accumulate: Number of batches per optimizer step.

    Returns:
        The weights, and the loss of each optimizer step: the mean over its labels.
    """
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / updates)
    losses = []
    for update in range(updates):
        batches = [feed.batch(update * accumulate + number) for number in range(accumulate)]
        labels = sum(batch["global_label_tokens"] for batch in batches)
        loss = sum(sum_of_losses(model, batch) for batch in batches) / labels
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return weights(model), losses


def sum_of_losses(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    fields = {name: batch[name] for name in _MODEL_FIELDS if name in batch}
    logits = model(**fields, use_cache=False).logits[:, :-1]
    return cross_entropy(logits.flatten(0, 1), batch["labels"][:, 1:].flatten(), reduction="sum", ignore_index=-100)


@torch.no_grad()
def mean_loss(model: nn.Module, feed: Feed) -> float:
    """Return the mean loss over the labels of a finite feed of padded rows, one sample at a time."""
    model.eval()
    total = 0.0
    labels = 0
    for batch in map(feed.batch, range(len(feed))):
        for row in range(len(batch["ids"])):
            real = batch["attention_mask"][row].bool()
            sample = {name: batch[name][row][real][None] for name in ("input_ids", "labels")}
            if real.any():
                total += sum_of_losses(model, sample).item()
                labels += int((sample["labels"] != -100).sum())
    return total / labels


@torch.no_grad()
def losses_alone(model: nn.Module, batch: dict[str, Tensor]) -> list[float]:
    """Return the mean loss over the labels of each sample of a batch, padded or packed, one sample at a time."""
    model.eval()
    tokens = {name: batch[name] for name in ("input_ids", "labels")}
    if "cu_seqlens" in batch:
        spans = list(pairwise(batch["cu_seqlens"].tolist()))
        real = batch["sequence_ids"].flatten()
        spans = [(start, stop) for start, stop in spans if real[start] > 0]
        found = [{name: each.flatten()[a:b][None] for name, each in tokens.items()} for a, b in spans]
    else:
        masks = batch["attention_mask"].bool()
        found = [{name: each[row][mask][None] for name, each in tokens.items()} for row, mask in enumerate(masks)]
    return [float(sum_of_losses(model, each)) / int((each["labels"] != -100).sum()) for each in found]


def reported(log: Path) -> dict[int, list[float]]:
    """Return the losses in a ledger, by step."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    found: dict[int, list[float]] = {}
    for report in (report for line in lines if "kind" in line for report in reports(line, 1 << 40)):
        found.setdefault(report.step, []).extend(report.losses.tolist())  # of each unit, in batches by length
    return found
