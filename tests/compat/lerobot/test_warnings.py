"""Warnings that fire where something is lost, and do not fire elsewhere."""

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.compat.lerobot.datasets import FRAMES, Make, indexes, loader_of


def messages(run: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "This DataLoader will create")
        run()
    return [str(each.message) for each in caught]


@pytest.mark.parametrize(
    ("world", "batch_size", "words"),
    [
        (3, 4, ["some get 0, others 1", "leave it out with drop_last"]),
        (4, 4, ["some get 0, others 1"]),
        (4, 9, ["some get 3, others 4"]),
        (4, 13, ["some get 12, others 13", "only where it is short"]),
        (2, 4, []),
        (5, 5, []),
        (1, 4, []),
        (2, 25, []),
    ],
)
def test_ranks_with_unequal_last_batches_are_warned_of(
    plain: Make, world: int, batch_size: int, words: list[str]
) -> None:
    [*found] = messages(lambda: plain(rank=0, world_size=world, batch_size=batch_size))
    assert len(found) == (1 if words else 0)
    assert all(word in found[0] for word in words)


def note_warnings(path: Path, worker: int) -> None:
    """Write what a worker process warns of into a file, for the test to see."""

    def note(message: Warning | str, *_: Any) -> None:
        with path.open("a") as file:
            file.write(f"{message}\n")

    warnings.simplefilter("always")
    warnings.showwarning = note


def warnings_of_workers(dataset: Any, batch_size: int, workers: int, path: Path) -> str:
    path.write_text("")
    indexes(loader_of(dataset, batch_size, workers, worker_init_fn=partial(note_warnings, path)))
    return path.read_text()


def test_a_worker_without_data_is_warned_of(plain: Make, tmp_path: Path) -> None:
    path = tmp_path / "warnings"
    assert warnings_of_workers(plain(batch_size=25), 25, 2, path) == ""
    assert "worker 2 of 3 gets no data" in warnings_of_workers(plain(batch_size=25), 25, 3, path)
    assert "of 5 gets no data" in warnings_of_workers(plain(episodes=[4]), 2, 5, path)  # 4 frames


def test_the_rest_of_an_epoch_may_be_too_short_for_all_workers(plain: Make, tmp_path: Path) -> None:
    dataset = plain(batch_size=4)
    dataset.load_state_dict({"batches_consumed": 12, "batch_size": 4})
    assert warnings_of_workers(dataset, 4, 2, tmp_path / "warnings") == ""


def test_a_rank_without_data_is_warned_of(plain: Make) -> None:
    with pytest.warns(UserWarning, match="can't share equally"):
        dataset = plain(rank=0, world_size=FRAMES + 1, batch_size=4)
    with pytest.warns(UserWarning, match=f"rank 0 of {FRAMES + 1} gets no data"):
        assert indexes(loader_of(dataset, 4, 0)) == []


def test_buffer_size_is_ignored_with_a_warning_and_nothing_else_warns(plain: Make) -> None:
    with pytest.warns(FutureWarning, match="episode_pool_size"):
        dataset = plain(buffer_size=1000, batch_size=4)
    assert indexes(loader_of(dataset, 4, 0)) == indexes(loader_of(plain(batch_size=4), 4, 0))
    assert messages(lambda: indexes(loader_of(plain(batch_size=4, max_num_shards=2), 4, 0))) == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("decode_threads", 4, "all cores"),
        ("byte_budget_gb", 8.0, "use cache="),
        ("repeat", True, "each `for` is an epoch"),
    ],
)
def test_newer_arguments_without_a_meaning_here_are_ignored_with_one_warning(
    plain: Make, name: str, value: Any, words: str
) -> None:
    [message] = messages(lambda: plain(**{name: value}))
    assert message.startswith(f"{name} is ignored: ") and words in message
    assert messages(lambda: plain(repeat=False, video_backend="pyav")) == []
