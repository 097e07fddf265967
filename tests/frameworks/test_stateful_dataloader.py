"""torchdata's StatefulDataLoader over a feed: exact on the same workers, on others, and on another world."""

import json
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

import penstock
from penstock import Feed, StateError
from tests.shards import small_run, write_shards

STEPS = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)
    return folder


@pytest.fixture(autouse=True)
def _theirs() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*set_vital.*")
        yield


def opened(folder: Path, rank: int = 0, world: int = 1, **options: Any) -> Feed:
    return penstock.open(small_run(folder, **options or {"global_batch_size": 6}), rank=rank, world=world)


def loaded(feed: Feed, workers: int, start: int = 0, **options: Any) -> "StatefulDataLoader[Any]":
    more = {"multiprocessing_context": "fork"} if workers else {}
    steps = feed.steps(start)
    return StatefulDataLoader(feed, batch_size=None, sampler=steps, num_workers=workers, **more, **options)


def ids(loader: "StatefulDataLoader[Any]", number: int) -> list[list[str]]:
    return [batch["ids"] for batch in islice(loader, number)]


def saved(loader: "StatefulDataLoader[Any]", steps: int) -> dict[str, Any]:
    """Return the state after some batches, as a checkpoint keeps it."""
    batches = iter(loader)
    for _ in range(steps):
        next(batches)
    state: dict[str, Any] = json.loads(json.dumps(loader.state_dict()))
    return state


@pytest.mark.shows("StatefulDataLoader", "mixture")
@pytest.mark.shows("StatefulDataLoader", "endless run")
@pytest.mark.shows("StatefulDataLoader", "checkpoint and resume")
@pytest.mark.shows("StatefulDataLoader", "resume on another world")
@pytest.mark.parametrize(("before", "after", "every"), [(0, 0, 1), (2, 3, 1), (3, 0, 4), (0, 2, 4)])
def test_a_state_resumes_on_any_number_of_workers_and_ranks(folder: Path, before: int, after: int, every: int) -> None:
    whole = [opened(folder).batch(step)["ids"] for step in range(STEPS)]
    state = saved(loaded(opened(folder), before, snapshot_every_n_steps=every), 7)
    parts = []
    for rank in range(2):
        feed = opened(folder, rank, 2)
        parts.append(ids(loaded(feed, after, feed.resume(state)), STEPS - 7))
    assert [a + b for a, b in zip(*parts, strict=True)] == whole[7:]


@pytest.mark.parametrize("workers", [0, 2])
def test_its_own_load_state_dict_is_exact_on_the_same_workers(folder: Path, workers: int) -> None:
    whole = [opened(folder).batch(step)["ids"] for step in range(STEPS)]
    state = saved(loaded(opened(folder), workers), 5)
    loader = loaded(opened(folder), workers)
    loader.load_state_dict(state)
    assert ids(loader, 6) == whole[5:11]
    again = loaded(opened(folder), workers)  # the state of a run that was resumed
    again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert ids(again, 6) == whole[11:17]


@pytest.mark.shows("StatefulDataLoader", "evaluation")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_finite_run_ends_after_its_tail(folder: Path, workers: int) -> None:
    feed = opened(folder, global_batch_size=5, passes=1)
    state = saved(loaded(feed, workers), 3)
    rest = [id for batch in loaded(feed, workers, feed.resume(state)) for id in batch["ids"] if id]
    assert rest == [line.item for step in range(3, len(feed)) for line in feed.lines(step)]


def test_workers_that_could_not_know_the_batch_size_of_a_state_are_refused(folder: Path) -> None:
    state = saved(loaded(opened(folder, batch_size=6), 2), 4)
    feed = opened(folder, world=2, batch_size=6)
    loader = loaded(feed, 2)
    loader.load_state_dict(state)
    with pytest.raises(StateError, match=r"call start = feed\.resume\(state\) first"):
        next(iter(loader))
    assert ids(loaded(feed, 2, feed.resume(state)), 3) == [feed.batch(step)["ids"] for step in (4, 5, 6)]
    assert len(feed.batch(4)["ids"]) == 3


def test_a_state_of_another_run_is_refused(folder: Path) -> None:
    state = saved(loaded(opened(folder, global_batch_size=6, seed=1), 0), 4)
    with pytest.raises(StateError, match=r"it differs in seed \(1 then, 2 now\)"):
        opened(folder, global_batch_size=6, seed=2).resume(state)
