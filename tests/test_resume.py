"""Stopping and going on: at every step of a run, on any threads, processes, ranks and batch sizes.

The run: 208 batches of 4 over three small sources, every one through several epochs, and a mixture that changes in the
middle of a batch. A state says all that there is to know, so two things at every step make the whole: the batches that
come next are those of the uninterrupted run, and so is the state after them.
"""

import json
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.feed import Feed
from penstock.feed.batches import MadeUnits
from penstock.feed.steps import Steps
from penstock.loader import Loader
from penstock.loader.processes import Processes
from tests.shards import content, small_run, write_shards

STEPS, BATCH, CHANGE = 208, 4, 413
MIXTURE = [
    {"weights": {"assamese": 3, "bengali": 2, "gujarati": 2}},
    {"at": CHANGE, "weights": {"assamese": 1, "bengali": 3, "gujarati": 1}},
]

Batch = dict[str, Any]


@dataclass(frozen=True)
class Walked:
    """The uninterrupted run: its batches, the state before each (and after the last), the item of each sample."""

    folder: Path
    batches: list[Batch]
    states: list[dict[str, Any]]
    items: dict[int, str]

    def feed(self, *, rank: int = 0, world: int = 1, **options: Any) -> Feed:
        if "batch_size" not in options:
            options = {"global_batch_size": BATCH, **options}
        return penstock.open(small_run(self.folder, seed=5, mixture=MIXTURE, **options), rank=rank, world=world)

    def resumed(self, step: int, *, threads: int | None = 0, workers: int = 0, **options: Any) -> Loader:
        """A loader of a feed that is opened anew, at a state that went through a file."""
        loader = self.feed(**options).loader(threads=threads, workers=workers)
        loader.load_state_dict(json.loads(json.dumps(self.states[step])))
        return loader


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Walked:
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)
    walked = Walked(folder, [], [], {})
    feed = walked.feed()
    loader = feed.loader(threads=0)
    walked.states.append(loader.state_dict())
    for batch in islice(loader, STEPS):
        walked.batches.append(batch)
        walked.states.append(loader.state_dict())
        walked.items.update(by_sample(feed, batch))
    return walked


def by_sample(feed: Feed, batch: Batch, rank: int = 0, world: int = 1) -> dict[int, str]:
    """The items of a batch by their number in the run."""
    return dict(zip(feed.planned(batch["step"], rank, world).slot.tolist(), batch["ids"], strict=True))


def told(batch: Batch) -> tuple[Any, ...]:
    """All of a batch, as what can be compared."""
    rest = {key: value for key, value in batch.items() if key != "rows"}
    return (batch["rows"].tolist(), *rest.items())


def same(found: list[Batch], expected: list[Batch]) -> bool:
    return list(map(told, found)) == list(map(told, expected))


def test_the_run_is_what_this_file_says_it_is(run: Walked) -> None:
    lines = [line for step in range(STEPS) for line in run.feed().lines(step)]
    for source in ("assamese", "bengali", "gujarati"):
        assert max(line.epoch for line in lines if line.source == source) >= 2, "two epochs ended"
    assert CHANGE % BATCH and CHANGE < STEPS * BATCH
    assert sorted(run.items) == list(range(STEPS * BATCH))
    for line, (id, record) in zip(
        lines, (pair for b in run.batches for pair in zip(b["ids"], b["records"], strict=True)), strict=True
    ):
        assert (line.item, {"txt": content(line.group, line.item)}) == (id, record)


@pytest.mark.parametrize("threads", [0, 4])
def test_resume_at_every_step_equals_the_uninterrupted_run_in_threads(run: Walked, threads: int) -> None:
    for step in range(STEPS):
        with run.resumed(step, threads=threads) as loader:
            batches = list(islice(loader, 3))[: STEPS - step]
            assert same(batches, run.batches[step : step + 3]), f"resumed at step {step}"
            if step + 3 <= STEPS:
                assert loader.state_dict() == run.states[step + 3]


@dataclass(frozen=True)
class Afresh:
    """Begins a walk at every step that it is asked for, as a worker does after a resume."""

    feed: Feed
    asked: list[int]
    steps: Steps

    def units(self, number: int) -> MadeUnits:
        step = self.asked[number]
        with self.feed.walk(Steps(step, None, self.steps.stride)) as walk:
            return walk.units(step)

    def close(self) -> None:
        pass


@pytest.mark.long
@pytest.mark.parametrize("workers", [2, 3])
def test_resume_at_every_step_equals_the_uninterrupted_run_in_processes(run: Walked, workers: int) -> None:
    """A loader gives its engine the steps from the state's on; here one engine gets those of all states in turn.

    So every step is come to as the first after a resume, without starting interpreters 208 times. Engines that really
    start at a state are in the next test.
    """
    asked: list[int] = []
    for step in range(STEPS):
        loader = run.resumed(step)
        asked += [step for step in islice(loader._feed.remaining(loader.step), 3) if step < STEPS]
    engine = Processes(partial(Afresh, run.feed(), asked), Steps(0, len(asked)), workers)
    try:
        for step, [made] in zip(asked, engine, strict=True):
            assert told(made.batch()) == told(run.batches[step])
    finally:
        engine.close()


@pytest.mark.parametrize(("workers", "stops"), [(2, (0, 103)), (3, (50, 102))])
def test_a_loader_goes_on_in_processes_to_the_end(run: Walked, workers: int, stops: tuple[int, ...]) -> None:
    for step in stops:
        with run.resumed(step, threads=None, workers=workers) as loader:
            assert same(list(islice(loader, STEPS - step)), run.batches[step:]), f"resumed at step {step}"
            assert loader.state_dict() == run.states[STEPS]


def test_a_run_that_is_stopped_after_every_batch_and_moved_each_time_is_the_same_run(run: Walked) -> None:
    state, batches = run.states[0], []
    for step in range(STEPS):
        with run.feed().loader(threads=(0, 1, 4)[step % 3]) as loader:
            loader.load_state_dict(json.loads(json.dumps(state)))
            batches.append(next(loader))
            state = loader.state_dict()
    assert same(batches, run.batches)


@pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.long)])
def test_resume_at_every_step_on_another_number_of_ranks_gives_the_same_global_batches(run: Walked, world: int) -> None:
    for step in range(STEPS):
        parts = [next(run.resumed(step, rank=rank, world=world)) for rank in range(world)]
        assert joined(parts) == (run.batches[step]["ids"], run.batches[step]["records"])


def joined(parts: list[Batch]) -> tuple[list[str], list[dict[str, bytes]]]:
    return [id for part in parts for id in part["ids"]], [record for part in parts for record in part["records"]]


@pytest.mark.long
def test_the_batch_size_of_a_rank_keeps_the_global_batch_of_the_first_start_at_every_step(run: Walked) -> None:
    first = run.feed(world=2, batch_size=BATCH // 2)
    for step in range(STEPS):
        state = first.state(step)
        parts = []
        for rank in range(4):
            feed = run.feed(rank=rank, world=4, batch_size=BATCH // 2)
            parts.append(feed[feed.resume(state)])
        assert joined(parts)[0] == run.batches[step]["ids"]


@pytest.mark.parametrize("size", [1, 3, 6])
def test_resume_at_every_step_with_another_batch_size_goes_on_with_the_next_sample(run: Walked, size: int) -> None:
    for step in range(STEPS - 4):
        with run.resumed(step, global_batch_size=size) as loader:
            items: dict[int, str] = {}
            for batch in islice(loader, 2):
                assert len(batch["ids"]) == size
                items.update(by_sample(loader._feed, batch))
        begin = step * BATCH
        assert items == {sample: run.items[sample] for sample in range(begin, begin + 2 * size)}


@pytest.mark.long
def test_ranks_and_batch_size_may_change_again_and_again(run: Walked) -> None:
    state, items = run.states[0], dict[int, str]()
    for turn, (world, size) in enumerate(((1, 4), (2, 6), (3, 9), (1, 5), (2, 2), (4, 8), (1, 1)) * 6):
        step = 0
        for rank in range(world):
            feed = run.feed(rank=rank, world=world, global_batch_size=size)
            with feed.loader(threads=0) as loader:
                loader.load_state_dict(json.loads(json.dumps(state)))
                for batch in islice(loader, turn % 4 + 1):
                    items.update(by_sample(feed, batch, rank, world))
                step, latest = loader.step, loader.state_dict()
        state = latest
    assert step == state["step"]
    assert len(items) == state["samples"] > CHANGE
    assert items == {sample: run.items[sample] for sample in range(state["samples"])}


@pytest.mark.parametrize(("threads", "workers"), [(0, 0), (1, 0), (4, 0), (None, 2)])
def test_the_state_counts_batches_handed_out_not_batches_made_ahead(
    run: Walked, threads: int | None, workers: int
) -> None:
    with run.feed().loader(threads=threads, workers=workers) as loader:
        for step in range(20):
            state = loader.state_dict()
            assert (state["step"], state["samples"]) == (step, step * BATCH)
            assert state == run.states[step]
            assert next(loader)["step"] == step
        assert loader.state_dict() == run.states[20]


def test_loading_a_state_moves_a_loader_that_is_running(run: Walked) -> None:
    with run.feed().loader(threads=4) as loader:
        for step in (60, 3, 103, 3, 207):
            next(loader)
            loader.load_state_dict(run.states[step])
            assert told(next(loader)) == told(run.batches[step])


def test_a_finite_run_is_resumed_at_every_step_and_ends_at_the_same_one(run: Walked) -> None:
    feed = run.feed(passes=2)
    whole = list(feed.loader(threads=0))
    assert [batch["step"] for batch in whole] == list(range(len(feed)))
    for step in range(len(whole) + 1):
        again = run.feed(passes=2).loader(threads=0)
        again.load_state_dict(feed.state(step))
        rest = list(again)
        assert [batch["ids"] for batch in rest] == [batch["ids"] for batch in whole[step:]]
