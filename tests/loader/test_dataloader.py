"""torch's DataLoader over a feed: a map-style dataset whose index is the step."""

import gc
import json
import sys
import warnings
import weakref
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import penstock
from penstock.feed import Feed
from tests.shards import small_run, write_shards


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)
    return folder


def opened(folder: Path, **options: Any) -> Feed:
    return penstock.open(small_run(folder, batch_size=6, **options), rank=0, world=1)


def loaded(feed: Feed, start: int = 0, **options: Any) -> "DataLoader[dict[str, Any]]":
    return DataLoader(feed, batch_size=None, sampler=feed.steps(start), **options)  # type: ignore[arg-type]


def told(batch: dict[str, Any]) -> str:
    """All of a batch in words; DataLoader makes tensors of arrays."""
    return str({**batch, "rows": batch["rows"].tolist(), "valid": batch.get("valid", torch.ones(0)).tolist()})


def taken(batches: Iterator[dict[str, Any]], number: int) -> list[str]:
    return [told(batch) for batch in islice(batches, number)]


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 0},
        {"num_workers": 2, "multiprocessing_context": "fork"},
        {"num_workers": 2, "multiprocessing_context": "fork", "persistent_workers": True, "prefetch_factor": 5},
        {"num_workers": 0, "pin_memory": True},
        {"num_workers": 1, "multiprocessing_context": "spawn", "pin_memory": True, "persistent_workers": True},
    ],
    ids=str,
)
def test_it_just_works_and_gives_the_loaders_batches(folder: Path, options: dict[str, Any]) -> None:
    feed = opened(folder)
    feed.batch(0)  # what is open here is not the workers' affair
    with feed.loader(start=3, threads=4) as loader:
        expected = taken(loader, 20)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*pin_memory.*")  # no accelerator to pin for
        batches = iter(loaded(feed, 3, **options))
        assert taken(batches, 20) == expected


def test_a_dataloader_that_would_join_batches_is_refused(folder: Path) -> None:
    feed = opened(folder)
    batches = DataLoader(feed, batch_size=2, sampler=feed.steps())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a feed makes whole batches: pass batch_size=None and sampler"):
        next(iter(batches))


def test_persistent_workers_walk_a_finite_run_again(folder: Path) -> None:
    feed = opened(folder, passes=1)
    loader = loaded(feed, num_workers=2, persistent_workers=True, multiprocessing_context="fork")
    first, second = list(loader), list(loader)
    assert len(loader) == len(feed) == len(first)
    assert list(map(told, first)) == list(map(told, second)) == [told(feed.batch(step)) for step in range(len(feed))]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_state_is_that_of_the_batches_used_not_of_those_fetched_ahead(folder: Path, workers: int) -> None:
    options = {"num_workers": workers, **({"multiprocessing_context": "fork"} if workers else {})}
    feed = opened(folder)
    expected = [told(feed.batch(step)) for step in range(40)]
    batches = iter(loaded(feed, **options))
    for _ in range(13):
        batch = next(batches)
    state = json.loads(json.dumps(feed.state(batch["step"] + 1)))
    assert state["samples"] == 13 * 6

    again = opened(folder)
    assert taken(iter(loaded(again, again.resume(state), **options)), 27) == expected[13:]
    with opened(folder).loader(threads=2) as loader:
        loader.load_state_dict(state)
        assert taken(loader, 27) == expected[13:], "and the same state serves a loader"


def test_a_resumed_batch_size_reaches_spawned_workers(folder: Path) -> None:
    state = opened(folder).state(10)
    feed = penstock.open(small_run(folder, batch_size=4), rank=0, world=1)
    batches = iter(loaded(feed, feed.resume(state), num_workers=1, multiprocessing_context="spawn"))
    assert taken(batches, 5) == [told(feed.batch(step)) for step in range(10, 15)]


def test_an_endless_feed_has_no_length_and_a_finite_one_has(folder: Path) -> None:
    with pytest.raises(TypeError, match="endless feed has no length"):
        len(loaded(opened(folder)))
    feed = opened(folder, passes=1)
    assert len(loaded(feed, 2)) == len(feed) - 2
    assert len(loaded(feed, len(feed) + 5)) == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_stops_when_more_samples_are_bad_than_allowed(tmp_path: Path, workers: int) -> None:
    write_shards(tmp_path, {"assamese": [40]})
    with open(tmp_path / "train.tsv", "a") as filelist:
        filelist.writelines(f"assamese-0.tar\tmissing_{number}\tassamese\t1.5\n" for number in range(10))
    with pytest.raises(penstock.TooManyBad, match=r"samples were bad, more than max_bad: 0.1 allows"):
        for batch in loaded(opened(tmp_path, max_bad=0.1), num_workers=workers):
            assert batch["step"] < 400 * max(1, workers)


def noted(log: Path) -> list[int]:
    """The steps that a ledger is about, in the order of its lines."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [step for line in lines for step in range(*line["steps"])]


@pytest.mark.long
def test_every_batch_that_was_handed_out_is_in_the_ledger_and_no_other(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = opened(folder, usage={"log": log, "every": 100})
    batches = loaded(feed)
    first = iter(batches)
    taken(first, 2)
    second = iter(batches)
    taken(second, 1)
    del first  # ends the first walk, not the second
    taken(second, 2)
    feed.close()
    taken(second, 2)  # goes on, and is noted
    feed[40]
    feed[5]  # a look, not a use
    feed.state(5)
    assert sorted(noted(log)) == [0, 0, 1, 1, 2, 3, 4]


def test_two_samplers_of_one_feed_are_both_noted(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = opened(folder, usage={"log": log, "every": 100})
    one = iter(loaded(feed))
    other = iter(loaded(feed, 50))
    for _ in range(3):
        next(one)
        next(other)
    feed.close()
    assert sorted(noted(log)) == [0, 1, 2, 50, 51, 52]


def test_a_look_at_a_step_while_workers_make_batches_is_no_use(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = opened(folder, usage={"log": log, "every": 1})
    batches = iter(loaded(feed, num_workers=2))
    taken(batches, 3)
    feed[0]
    feed[1]
    del batches
    feed.close()
    assert len(noted(log)) == len(set(noted(log)))


def test_a_feed_that_is_dropped_is_freed_and_its_ledger_written(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = opened(folder, usage={"log": log, "every": 100})
    taken(iter(loaded(feed)), 3)
    gone = weakref.ref(feed)
    del feed
    gc.collect()
    assert gone() is None and noted(log) == [0, 1, 2]


def test_a_step_may_be_taken_while_another_thread_imports_torch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.data", ModuleType("torch.utils.data"))  # begun, and still empty
    monkeypatch.delattr(torch.utils, "data")
    assert opened(folder)[3]["step"] == 3
