"""Chat batches by tokens: rows of like lengths, planned from the lengths in the index."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.feed import Feed
from tests.recipes import chat_runs

BUDGET = 256


@pytest.fixture
def data(tmp_path: Path) -> list[dict[str, Any]]:
    words = (np.random.default_rng(0).lognormal(1.0, 0.8, 500).astype(int) + 1).tolist()
    records = [{"text": f"{number}: " + "word " * min(count, 16)} for number, count in enumerate(words)]
    return [chat_runs.source(chat_runs.write_records(tmp_path, records), "text")]


def opened(data: list[dict[str, Any]], rank: int = 0, world: int = 1, **options: Any) -> Feed:
    batch = {"tokens": BUDGET, "units": 2, **options.pop("batch", {})}
    return chat_runs.run(data, batch_size=None, batch=batch, rank=rank, world=world, **options)


def units(feed: Feed, steps: range) -> list[dict[str, Any]]:
    return [batch for step in steps for batch in feed.units(step)]


def test_rows_are_of_like_lengths_within_the_budget(data: list[dict[str, Any]]) -> None:
    feed = opened(data)
    useful = padded = 0
    for batch in units(feed, range(12)):
        assert batch["input_ids"].numel() <= BUDGET
        useful += int(batch["attention_mask"].sum())
        padded += batch["input_ids"].numel()
    assert useful / padded > 0.9
    plain = chat_runs.run(data, batch_size=16)
    masks = [plain.batch(step)["attention_mask"] for step in range(12)]
    assert sum(int(mask.sum()) for mask in masks) / sum(mask.numel() for mask in masks) < 0.7


def test_planned_sums_are_those_of_the_tokens(data: list[dict[str, Any]]) -> None:
    for step in range(4):
        own = opened(data).units(step)
        assert {batch["global_samples"] for batch in own} == {sum(len(batch["ids"]) for batch in own)}
        assert own[0]["global_tokens"] == sum(int(batch["attention_mask"].sum()) for batch in own)
        assert own[0]["global_label_tokens"] == sum(int((batch["labels"] != -100).sum()) for batch in own)


def test_ranks_and_resumes_get_the_same_global_batches(data: list[dict[str, Any]]) -> None:
    whole = opened(data)
    planned = [[batch["ids"] for batch in whole.units(step)] for step in range(6)]
    for step in range(6):
        state = json.loads(json.dumps(whole.state(step)))
        assert len(json.dumps(state)) < 1_000
        ranks = [opened(data, rank, 2) for rank in range(2)]
        assert [feed.resume(state) for feed in ranks] == [step, step]
        assert [feed.batch(step)["ids"] for feed in ranks] == planned[step]


def test_lengths_are_rounded_as_rows_are_padded(data: list[dict[str, Any]]) -> None:
    feed = opened(data, pad_to_multiple_of=8)
    for batch in units(feed, range(8)):
        assert batch["input_ids"].shape[1] % 8 == 0 and batch["input_ids"].numel() <= BUDGET
    with pytest.raises(penstock.StateError, match="items"):
        opened(data).resume(feed.state(3))


def test_a_quadratic_term_gives_long_rows_smaller_batches(data: list[dict[str, Any]]) -> None:
    sizes = [batch["attention_mask"].shape for batch in units(opened(data, batch={"quadratic_after": 32}), range(20))]
    for count, width in sizes:
        assert count * (width + width * width / 32) <= BUDGET
    assert max(count * width for count, width in sizes) < BUDGET * 0.8


@pytest.mark.parametrize("options", [{"pack": True}, {"padding": "max_length"}, {"padding": "none"}])
def test_other_rows_do_not_depend_on_the_longest_and_are_refused(
    data: list[dict[str, Any]], options: dict[str, Any]
) -> None:
    with pytest.raises(penstock.ConfigError, match="`padding: longest` of chat"):
        opened(data, **options)
