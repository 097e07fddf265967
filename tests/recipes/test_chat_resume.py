"""A chat run that stops and goes on: at every step, with threads, with processes, with an index gone or half made.

The run: packs over two epochs and more, of two sources with records that their format rejects, a broken image, and a
limit; and rounds in file order with caps and repeats, whose index grows.
"""

import json
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from penstock.feed import Feed
from tests.recipes.chat_runs import run, source, write_questions, write_records

STEPS = 14
Batch = dict[str, Any]


def write(folder: Path) -> list[dict[str, Any]]:
    questions = write_questions(folder)
    (folder / "5.png").write_bytes(b"broken")
    rejected = [{"messages": []}, "no record"]
    texts = [
        {"messages": [{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": f"{n}! " * (n % 6 + 1)}]}
        for n in range(20)
    ]
    several = [each for pair in zip(texts, rejected * 10, strict=True) for each in pair]
    other = write_records(folder, several, "b.jsonl")
    return [source(questions), source(other, "conversation", limit=12)]


KINDS: dict[str, dict[str, Any]] = {
    "packs": {"pack": True, "batch_size": 2},
    "rounds": {
        "mixture": {"rounds": {"max_per_epoch": 15, "max_per_modality": {"image": 6}, "repeat": 2}},
        "shuffle": False,
        "batch_size": 3,
    },
}


class Whole:
    """The uninterrupted run."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self.sources = write(folder)
        self.cache = folder / "cache"
        self.options = options
        feed = self.feed()
        self.batches = [feed.batch(step) for step in range(STEPS)]
        self.states = [json.loads(json.dumps(feed.state(step))) for step in range(STEPS)]
        feed.close()

    def feed(self) -> Feed:
        return run(self.sources, **self.options)

    def resumed(self, step: int, **how: Any) -> Iterator[Batch]:
        loader = self.feed().loader(**how)
        loader.load_state_dict(self.states[step])
        return loader


@pytest.fixture(scope="module", params=KINDS)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return Whole(tmp_path_factory.mktemp("chat"), KINDS[request.param])


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)


def assert_same(batch: Batch, expected: Batch) -> None:
    assert batch.keys() == expected.keys()
    assert [name for name in batch if not equal(batch[name], expected[name])] == []


def test_the_run_holds_what_it_is_meant_to_try(whole: Whole) -> None:
    assert any(bad.id == "5" for batch in whole.batches for bad in batch["bad"])
    planned = whole.feed().planned(STEPS - 1)
    assert planned.epoch.max() >= 1 or planned.slot.min() >= 30  # the second epoch, of packs and of rounds
    assert {name for batch in whole.batches for name in batch["sources"]} == {"a", "b"}


@pytest.mark.parametrize("threads", [0, 2, 3])
def test_the_run_goes_on_from_every_step(whole: Whole, threads: int) -> None:
    for step in range(STEPS - 1):
        loader = whole.resumed(step, threads=threads)
        for batch, expected in zip(islice(loader, 2), whole.batches[step : step + 2], strict=True):
            assert_same(batch, expected)
        loader.close()


@pytest.mark.long
def test_the_run_goes_on_in_processes(whole: Whole) -> None:
    workers = 3 if "pack" in whole.options else 2  # each imports torch: one number per kind is enough
    step = 3 * workers
    loader = whole.resumed(step, workers=workers)
    for batch, expected in zip(islice(loader, STEPS - step), whole.batches[step:], strict=True):
        assert_same(batch, expected)
    loader.close()


def test_the_run_goes_on_after_its_index_was_deleted(whole: Whole) -> None:
    shutil.rmtree(whole.cache)
    for step in (STEPS - 1, 0, STEPS // 2):
        loader = whole.resumed(step, threads=0)
        assert_same(next(loader), whole.batches[step])
        loader.close()


def test_the_run_goes_on_with_half_of_an_index(whole: Whole) -> None:
    whole.feed().batch(0)
    kept = sorted(path for path in whole.cache.rglob("*") if path.is_file() and "indexes" in path.parts)
    assert kept
    for path in kept[::2]:
        path.unlink()
    loader = whole.resumed(STEPS - 2, threads=0)
    for batch, expected in zip(islice(loader, 2), whole.batches[STEPS - 2 :], strict=True):
        assert_same(batch, expected)
    loader.close()


def test_another_option_that_changes_the_order_is_refused(whole: Whole) -> None:
    from penstock.feed.state import StateError

    other = run(whole.sources, **{**whole.options, "max_length": 80})
    with pytest.raises(StateError):
        other.resume(whole.states[2])
