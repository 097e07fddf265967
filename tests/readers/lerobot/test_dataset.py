"""Which frames of a dataset a run uses, from ``meta/`` alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.manifest.errors import ManifestError
from penstock.plan.draws import ranges
from penstock.readers.lerobot.dataset import MOST_FRAMES, Dataset, EpisodeManifest, select
from penstock.readers.lerobot.episodes import Episodes
from penstock.readers.lerobot.info import Info
from tests.readers.lerobot.datasets import dataset_of
from tests.robots import write_robot


def dataset(lengths: list[int], numbers: list[int] | None = None) -> Dataset:
    """Return a dataset without files."""
    length = np.array(lengths, np.int64)
    stop = np.cumsum(length)
    index = np.array(range(len(lengths)) if numbers is None else numbers, np.int64)
    zeros = np.zeros(len(lengths), np.int64)
    tasks = [[f"task {number % 3}"] for number in index.tolist()]
    episodes = Episodes(index, length, zeros, zeros, stop - length, stop, pa.array(tasks), {})
    info = Info(30.0, {}, "rows-{chunk_index}-{file_index}", "", len(lengths), int(length.sum()), 1000, {})
    return Dataset("robot", info, episodes, ["task 0", "task 1", "task 2"], {})


def frames(groups: Any) -> list[tuple[int, int]]:
    return [
        (episode, first + frame)
        for episode, first, size in zip(
            groups.episode.tolist(), groups.first.tolist(), groups.size.tolist(), strict=True
        )
        for frame in range(size)
    ]


@given(st.lists(st.sampled_from([1, 5, 8_191, 8_192, 8_193, 20_000]), min_size=1, max_size=4), st.integers(0, 6))
@settings(max_examples=25)
def test_groups_have_every_frame_once_and_at_most_8192_of_them(lengths: list[int], drop: int) -> None:
    own = dataset(lengths)
    if max(lengths) <= drop:
        with pytest.raises(ManifestError, match="no frame is left"):
            select(own, drop_n_last_frames=drop)
        return
    groups = select(own, drop_n_last_frames=drop)
    assert groups.size.max() <= MOST_FRAMES and groups.size.min() >= 1
    assert frames(groups) == [(at, frame) for at, length in enumerate(lengths) for frame in range(length - drop)]


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)), st.sets(st.sampled_from(["task 0", "task 1"])))
def test_filters_are_a_conjunction(chosen: set[int], excluded: set[int], tasks: set[str]) -> None:
    own = dataset([2] * 10)
    expected = [n for n in sorted(chosen) if n not in excluded and f"task {n % 3}" in tasks]
    filters: dict[str, Any] = {
        "episodes": list(chosen),
        "exclude_episodes": list(excluded),
        "tasks": list(tasks),
    }
    if not expected:
        with pytest.raises(ManifestError, match="no frame is left of 10 episodes after the filters"):
            select(own, **filters)
    else:
        assert select(own, **filters).episode.tolist() == expected


def test_episodes_are_chosen_by_their_numbers_and_not_by_their_places() -> None:
    own = dataset([2, 3, 4], numbers=[7, 5, 9])
    assert select(own, episodes=[5]).episode.tolist() == [1]
    assert select(own, exclude_episodes=[7]).episode.tolist() == [1, 2]


def test_the_manifest_holds_groups_and_hours_and_nothing_per_frame() -> None:
    own = dataset([20_000, 100])
    manifest = EpisodeManifest(own, select(own))
    assert len(manifest) == 20_100
    assert [manifest.group_name(0, group) for group in range(4)] == ["episode-0"] * 3 + ["episode-1"]
    assert list(manifest.amounts["hours"]) == [round(20_100 / 30 * 1e6)]
    held = [value for value in vars(manifest.groups).values() if isinstance(value, np.ndarray)]
    assert all(len(array) <= 4 for array in held)
    assert ranges(np.array([2, 1])).tolist() == [0, 1, 0]


def test_the_fingerprint_is_of_the_frames_and_not_of_the_place() -> None:
    own = dataset([5, 6])
    moved = Dataset("elsewhere", own.info, own.episodes, own.tasks, {})
    prints = [
        EpisodeManifest(each, select(each, **filters)).fingerprints[0]
        for each, filters in ((own, {}), (moved, {}), (own, {"drop_n_last_frames": 1}), (own, {"episodes": [1]}))
    ]
    assert prints[0] == prints[1] and len(set(prints)) == 3


def test_paths_are_those_of_the_templates(tmp_path: Path) -> None:
    own = dataset_of(write_robot(tmp_path, [3, 4], ["top"]))
    assert own.data_path(1) == "data/chunk-000/file-000.parquet"
    assert own.video_path("top", 1) == "videos/top/chunk-000/file-000.mp4"
    assert own.first_rows == {(0, 0): 0} and own.episode_name(1) == "episode 1"
