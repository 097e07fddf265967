"""What ``meta/`` says of episodes, checked against itself."""

from pathlib import Path

import pytest

from tests.readers.lerobot.datasets import reader_of
from tests.robots import EPISODES, FPS, edit_table, write_robot

LENGTHS = [5, 5, 4]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_robot(tmp_path / "robot", LENGTHS, ["top"])


def problems(folder: Path, tmp_path: Path, **filters: object) -> dict[str, int]:
    return dict(reader_of(folder, tmp_path / "metadata", **filters).contradictions().counts)


def show_at(folder: Path, begins: dict[int, float]) -> None:
    """Let meta/ say at which frame of the video some episodes begin."""
    times = {at: frame / FPS for at, frame in begins.items()}
    ends = {at: (frame + LENGTHS[at]) / FPS for at, frame in begins.items()}
    edit_table(folder, EPISODES, {"videos/top/from_timestamp": times, "videos/top/to_timestamp": ends})


def test_episodes_may_touch_as_far_as_times_are_rounded(folder: Path, tmp_path: Path) -> None:
    show_at(folder, {1: 4.6})
    assert problems(folder, tmp_path) == {}


def test_episodes_may_share_all_of_their_video_but_not_a_part_of_it(folder: Path, tmp_path: Path) -> None:
    show_at(folder, {1: 0})
    assert problems(folder, tmp_path) == {}
    show_at(folder, {1: 1})
    assert problems(folder, tmp_path) == {"overlap": 1}


def test_an_overlap_with_an_episode_that_is_left_out_does_not_matter(folder: Path, tmp_path: Path) -> None:
    show_at(folder, {1: 3})
    assert problems(folder, tmp_path, exclude_episodes=[1]) == {}
    assert problems(folder, tmp_path, exclude_episodes=[0]) == {}
    assert problems(folder, tmp_path, exclude_episodes=[2]) == {"overlap": 1}
