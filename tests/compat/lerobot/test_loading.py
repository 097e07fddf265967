"""In a plain DataLoader: which frames come, in which order, for any number of workers and ranks."""

from itertools import zip_longest
from typing import Any

import pytest
import torch

from tests.compat.lerobot.datasets import FRAMES, Make, epochs, flat, indexes, loader_of


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_with_batch_size_the_order_is_the_same_for_any_number_of_workers(plain: Make, workers: int) -> None:
    expected = epochs(loader_of(plain(batch_size=4), 4, 0), 2)
    assert epochs(loader_of(plain(batch_size=4), 4, workers), 2) == expected


def test_without_batch_size_the_order_is_the_same_for_the_same_number_of_workers(plain: Make) -> None:
    first = epochs(loader_of(plain(), 4, 2), 2)
    assert epochs(loader_of(plain(), 4, 2), 2) == first
    assert [sorted(flat(epoch)) for epoch in first] == [list(range(FRAMES))] * 2


def test_every_frame_comes_once_per_epoch_and_epochs_differ(plain: Make) -> None:
    first, second = epochs(loader_of(plain(batch_size=4), 4, 0), 2)
    assert sorted(flat(first)) == sorted(flat(second)) == list(range(FRAMES))
    assert first != second
    assert flat(first) != sorted(flat(first))


def test_the_last_batch_is_short_and_drop_last_drops_that_batch_alone(plain: Make) -> None:
    for workers in (0, 3):
        [whole] = epochs(loader_of(plain(batch_size=4), 4, workers), 1)
        [dropped] = epochs(loader_of(plain(batch_size=4), 4, workers, drop_last=True), 1)
        assert [len(batch) for batch in whole] == [4] * 12 + [2]
        assert dropped == whole[:-1]


@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:the last batch")
def test_ranks_share_the_frames_of_an_epoch(plain: Make, batch_size: int | None, workers: int) -> None:
    seen: list[int] = []
    for rank in range(3):
        dataset = plain(batch_size=batch_size, rank=rank, world_size=3)
        seen += flat(indexes(loader_of(dataset, 4, workers)))
    assert sorted(seen) == list(range(FRAMES))


@pytest.mark.filterwarnings("ignore:the last batch")
def test_the_batches_of_all_ranks_are_those_of_one(plain: Make) -> None:
    together = indexes(loader_of(plain(batch_size=12), 12, 0))
    ranks = [indexes(loader_of(plain(batch_size=4, rank=rank, world_size=3), 4, 0)) for rank in range(3)]
    assert [flat(list(batches)) for batches in zip_longest(*ranks, fillvalue=[])] == together


def test_the_seed_decides(plain: Make) -> None:
    def first_epoch(**options: Any) -> list[list[int]]:
        return indexes(loader_of(plain(batch_size=4, **options), 4, 0))

    assert first_epoch(seed=1) == first_epoch(seed=1) != first_epoch(seed=2)


def test_without_shuffling_frames_come_in_the_order_of_the_files(plain: Make) -> None:
    for workers in (0, 2):
        dataset = plain(batch_size=4, shuffle=False)
        assert flat(indexes(loader_of(dataset, 4, workers))) == list(range(FRAMES))
    without_size = indexes(loader_of(plain(shuffle=False), 4, 0))
    assert flat(without_size) == list(range(FRAMES))


@pytest.mark.parametrize("batch_size", [None, 4])
def test_each_for_is_the_next_epoch_with_persistent_workers_too(plain: Make, batch_size: int | None) -> None:
    again = epochs(loader_of(plain(batch_size=batch_size), 4, 2), 3)
    persistent = epochs(loader_of(plain(batch_size=batch_size), 4, 2, persistent_workers=True), 3)
    assert persistent == again
    assert again[0] != again[1] != again[2]


def test_a_for_that_is_left_early_is_an_epoch_as_well(plain: Make) -> None:
    expected = epochs(loader_of(plain(batch_size=4), 4, 0), 3)
    for workers, options in ((0, {}), (2, {}), (2, {"persistent_workers": True})):
        loader = loader_of(plain(batch_size=4), 4, workers, **options)
        assert indexes(loader, 1) == expected[0][:1]
        assert indexes(loader, 2) == expected[1][:2]
        assert indexes(loader) == expected[2]


def test_a_generator_that_is_seeded_alike_for_every_epoch_does_not_repeat_an_epoch(plain: Make) -> None:
    expected = epochs(loader_of(plain(batch_size=4), 4, 0), 3)
    dataset = plain(batch_size=4)
    seen = []
    for most in (1, 1, None):  # left before all workers may have begun
        generator = torch.Generator().manual_seed(0)
        seen.append(indexes(loader_of(dataset, 4, 3, generator=generator), most))
    assert seen == [expected[0][:1], expected[1][:1], expected[2]]


def test_epochs_go_on_when_the_number_of_workers_changes(plain: Make) -> None:
    expected = epochs(loader_of(plain(batch_size=4), 4, 0), 3)
    dataset = plain(batch_size=4)
    assert [indexes(loader_of(dataset, 4, workers)) for workers in (2, 0, 3)] == expected


def test_spawned_workers_give_what_forked_ones_do(plain: Make) -> None:
    expected = epochs(loader_of(plain(batch_size=4), 4, 0), 3)
    dataset = plain(batch_size=4)
    loader = loader_of(dataset, 4, 2, multiprocessing_context="spawn", persistent_workers=True)
    assert epochs(loader, 2) == expected[:2]
    dataset.load_state_dict({"batches_consumed": 28, "batch_size": 4})
    assert indexes(loader) == expected[2][2:]


def test_a_dataset_that_was_used_can_be_copied_and_goes_on_alone(plain: Make) -> None:
    import copy

    expected = epochs(loader_of(plain(batch_size=4), 4, 0), 2)
    dataset = plain(batch_size=4)
    indexes(loader_of(dataset, 4, 0))
    other = copy.deepcopy(dataset)
    assert indexes(loader_of(other, 4, 0)) == expected[1]
    assert indexes(loader_of(dataset, 4, 0)) == expected[1]
