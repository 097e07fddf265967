"""Datasets for tests and demos are as the format says. `make lerobot-parity` opens them with LeRobot."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from penstock.curate.robot.writer import Episode, Layout, write_dataset
from tests.robots import EPISODES, FPS, ROWS, episode

LENGTHS = [5, 3, 4, 6]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("robot")
    episodes = [episode(number, length, ["top", "wrist"]) for number, length in enumerate(LENGTHS)]
    layout = Layout(episodes_per_data_file=3, episodes_per_video_file=2, images=("wrist",))
    write_dataset(folder, episodes, fps=FPS, layout=layout)
    return folder


def test_info_describes_what_was_written(folder: Path) -> None:
    info = json.loads((folder / "meta/info.json").read_text())
    assert info["codebase_version"] == "v3.0" and info["fps"] == FPS
    assert (info["total_episodes"], info["total_frames"], info["total_tasks"]) == (4, 18, 2)
    features = info["features"]
    assert features["top"]["dtype"] == "video" and features["top"]["shape"] == [64, 64, 3]
    assert features["wrist"]["dtype"] == "image"
    assert features["action"] == {"dtype": "float32", "shape": [3], "names": None}
    assert {key: features[key]["dtype"] for key in ("timestamp", "index")} == {"timestamp": "float32", "index": "int64"}


def test_the_table_of_episodes_says_where_each_lies(folder: Path) -> None:
    table = pq.read_table(folder / EPISODES).to_pydict()
    assert table["length"] == LENGTHS
    assert table["dataset_from_index"] == [0, 5, 8, 12] and table["dataset_to_index"] == [5, 8, 12, 18]
    assert table["data/file_index"] == [0, 0, 0, 1]
    assert table["videos/top/file_index"] == [0, 0, 1, 1]
    np.testing.assert_allclose(table["videos/top/from_timestamp"], np.array([0, 5, 0, 4]) / FPS)
    np.testing.assert_allclose(table["videos/top/to_timestamp"], np.array([5, 8, 4, 10]) / FPS)
    assert table["tasks"] == [["task 0"], ["task 1"], ["task 0"], ["task 1"]]


def test_rows_have_one_row_group_per_episode(folder: Path) -> None:
    file = pq.ParquetFile(folder / ROWS)
    assert [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)] == [5, 3, 4]
    rows = file.read().to_pydict()
    assert rows["index"] == list(range(12)) and rows["frame_index"][5:8] == [0, 1, 2]
    np.testing.assert_allclose(rows["timestamp"][5:8], np.arange(3) / FPS, atol=1e-7)


def test_statistics_are_those_of_the_values(folder: Path) -> None:
    stats = json.loads((folder / "meta/stats.json").read_text())
    frames = np.concatenate([np.arange(length) for length in LENGTHS])
    action = np.stack([frames, -frames, frames**2], axis=1)
    np.testing.assert_allclose(stats["action"]["mean"], action.mean(axis=0))
    np.testing.assert_allclose(stats["action"]["q90"], np.quantile(action, 0.9, axis=0))
    assert np.shape(stats["top"]["mean"]) == (3, 1, 1) and 0 < stats["top"]["mean"][0][0][0] < 1


def test_what_is_written_twice_is_the_same(tmp_path: Path) -> None:
    values = {"action": np.arange(4, dtype=np.float32)[:, None], "note": ["a", "b", "c", "d"]}
    for name in ("first", "second"):
        write_dataset(tmp_path / name, [Episode("t", values)], fps=FPS)
    for path in (tmp_path / "first").rglob("*.*"):
        assert path.read_bytes() == (tmp_path / "second" / path.relative_to(tmp_path / "first")).read_bytes()
