"""A state gives the rest of the epoch, and nothing that was skipped is decoded."""

import json
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest

from penstock.feed.state import StateError
from tests.compat.lerobot.datasets import FRAMES, Make, epochs, flat, indexes, loader_of

SIZE = 8
PER_EPOCH = -(-FRAMES // SIZE)


def rest(two: list[list[list[int]]], batches: int) -> list[list[int]]:
    """What is left of the epoch in which a count of batches lies."""
    epoch, within = divmod(batches, len(two[0]))
    return two[epoch][within:]


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_a_run_resumes_at_every_step_of_two_epochs(plain: Make, workers: int) -> None:
    expected = epochs(loader_of(plain(batch_size=SIZE), SIZE, 0), 3)
    dataset = plain(batch_size=SIZE)
    loader = loader_of(dataset, SIZE, workers, persistent_workers=workers > 0)
    for batches in range(2 * PER_EPOCH + 1):
        dataset.load_state_dict({"batches_consumed": batches, "batch_size": SIZE})
        assert indexes(loader) == rest(expected, batches)
    assert indexes(loader) == epochs(loader_of(plain(batch_size=SIZE), SIZE, 0), 4)[3]


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_without_batch_size_a_run_resumes_with_the_same_workers(plain: Make, workers: int) -> None:
    expected = epochs(loader_of(plain(), SIZE, workers), 2)
    dataset = plain()
    loader = loader_of(dataset, SIZE, workers, persistent_workers=workers > 0)
    for batches in range(2 * len(expected[0])):
        dataset.load_state_dict({"batches_consumed": batches, "batch_size": SIZE})
        assert indexes(loader) == rest(expected, batches)


@pytest.mark.parametrize(("before", "after"), [(0, 3), (3, 2), (2, 0)])
def test_a_new_process_resumes_with_another_number_of_workers(plain: Make, before: int, after: int) -> None:
    expected = epochs(loader_of(plain(batch_size=SIZE), SIZE, 0), 2)
    dataset = plain(batch_size=SIZE)
    indexes(loader_of(dataset, SIZE, before))
    assert indexes(loader_of(dataset, SIZE, before), 3) == expected[1][:3]
    state = json.loads(json.dumps(dataset.state_dict(PER_EPOCH + 3)))
    resumed = plain(batch_size=SIZE)
    resumed.load_state_dict(state)
    assert indexes(loader_of(resumed, SIZE, after)) == expected[1][3:]


@pytest.mark.filterwarnings("ignore:the last batch")
def test_one_state_serves_all_ranks_also_if_their_number_changes(plain: Make) -> None:
    together = indexes(loader_of(plain(batch_size=12), 12, 0))
    state = plain(batch_size=6, rank=1, world_size=2).state_dict(2)
    parts = []
    for rank in range(3):
        dataset = plain(batch_size=4, rank=rank, world_size=3)
        dataset.load_state_dict(state)
        parts.append(indexes(loader_of(dataset, 4, 0)))
    assert [flat(list(each)) for each in zip_longest(*parts, fillvalue=[])] == together[2:]


def test_a_batch_size_may_change_twice_and_no_frame_is_lost(plain: Make) -> None:
    seen: list[int] = []
    state: dict[str, Any] = {"batches_consumed": 0, "batch_size": 4}
    for size, most in ((4, 3), (10, 2), (6, None)):
        dataset = plain(batch_size=size)
        dataset.load_state_dict(state)
        batches = indexes(loader_of(dataset, size, 0), most)
        seen += flat(batches)
        state = dataset.state_dict(state["batches_consumed"] + len(batches))
    assert sorted(seen) == list(range(FRAMES))
    assert len(json.dumps(state)) < 1024
    dataset = plain(batch_size=6)
    dataset.load_state_dict(state)
    assert indexes(loader_of(dataset, 6, 0)) == epochs(loader_of(plain(batch_size=6), 6, 0), 2)[1]


def test_with_an_epoch_in_the_state_batches_count_from_its_beginning(plain: Make) -> None:
    expected = epochs(loader_of(plain(batch_size=SIZE), SIZE, 0), 3)
    for state in (
        {"batches_consumed": 3, "batch_size": SIZE, "epoch": 2},
        plain(batch_size=SIZE).state_dict(3, epoch=2),
    ):
        dataset = plain(batch_size=SIZE)
        dataset.load_state_dict(state)
        assert indexes(loader_of(dataset, SIZE, 2)) == expected[2][3:]


def test_with_an_epoch_in_the_state_a_loader_that_drops_batches_resumes(plain: Make) -> None:
    expected = epochs(loader_of(plain(batch_size=SIZE), SIZE, 0, drop_last=True), 2)
    assert [len(epoch) for epoch in expected] == [PER_EPOCH - 1] * 2
    dataset = plain(batch_size=SIZE)
    dataset.load_state_dict(dataset.state_dict(2, epoch=1))
    assert indexes(loader_of(dataset, SIZE, 0, drop_last=True)) == expected[1][2:]


def test_a_state_far_away_costs_nothing(plain: Make) -> None:
    dataset = plain(batch_size=SIZE)
    dataset.load_state_dict({"batches_consumed": 10**12, "batch_size": SIZE})
    assert len(indexes(loader_of(dataset, SIZE, 0))) == PER_EPOCH - 10**12 % PER_EPOCH


@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize("workers", [0, 2])
def test_nothing_is_decoded_that_is_skipped(filmed: Make, batch_size: int | None, workers: int) -> None:
    dataset = filmed(batch_size=batch_size)
    dataset.load_state_dict({"batches_consumed": 10, "batch_size": 4})
    left = sum(map(len, indexes(loader_of(dataset, 4, workers))))
    assert left < 13
    counts = dataset.video_decoder_cache.stats()
    assert 0 < counts["hits"] + counts["misses"] <= left  # at most one run of packets per frame


def test_a_state_that_is_loaded_in_the_middle_of_a_for_is_for_the_next_one(plain: Make) -> None:
    expected = epochs(loader_of(plain(batch_size=SIZE), SIZE, 0), 3)
    for workers in (0, 2):
        dataset = plain(batch_size=SIZE)
        loader = loader_of(dataset, SIZE, workers, persistent_workers=workers > 0)
        running = iter(loader)
        seen = [next(running)["index"].tolist()]
        dataset.load_state_dict({"batches_consumed": 2 * PER_EPOCH + 1, "batch_size": SIZE})
        seen += [batch["index"].tolist() for batch in running]
        assert seen == expected[0]
        assert indexes(loader) == expected[2][1:]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({}, "it has no 'batches_consumed'"),
        ({"batches_consumed": 3}, "it has no 'batch_size'"),
        ({"batches_consumed": -1, "batch_size": 4}, "batches_consumed is -1"),
        ({"batches_consumed": 1.5, "batch_size": 4}, "batches_consumed is 1.5"),
        ({"batches_consumed": True, "batch_size": 4}, "batches_consumed is True"),
        ({"batches_consumed": 1, "batch_size": np.True_}, "batch_size is "),
        ({"batches_consumed": 1, "batch_size": 0}, "batch of 0 samples"),
        ({"batches_consumed": 1, "batch_size": 4, "epoch": -1}, "epoch is -1"),
        ({"batches_consumed": "many", "batch_size": 4}, "many"),
        ({"batches_consumed": 1, "batch_size": 4, "segments": [[0, 0]]}, "not a state"),
        (None, "not a state"),
    ],
)
@pytest.mark.parametrize("batch_size", [None, 4])
def test_what_is_no_state_is_refused(plain: Make, batch_size: int | None, state: Any, words: str) -> None:
    with pytest.raises(StateError, match=words):
        plain(batch_size=batch_size).load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": 1}, "seed"),
        ({"episode_pool_size": 2}, "pool"),
        ({"episodes": [0, 1, 2]}, "items"),
        ({"shuffle": False}, "run"),
    ],
)
def test_a_state_of_another_run_is_refused_by_name(plain: Make, options: dict[str, Any], words: str) -> None:
    state = plain(batch_size=4).state_dict(3)
    with pytest.raises(StateError, match=rf"differs in .*{words}"):
        plain(batch_size=4, **options).load_state_dict(state)


def test_without_batch_size_a_state_can_not_be_written_nor_read_of_other_ranks(plain: Make) -> None:
    with pytest.raises(ValueError, match="give batch_size to the dataset"):
        plain().state_dict(3)
    with pytest.raises(StateError, match="give batch_size to the dataset"):
        plain().load_state_dict({"batches_consumed": 3, "batch_size": 4, "world_size": 2})
