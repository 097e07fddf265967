"""What trainers read of a dataset's ``meta``."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from penstock.compat.lerobot import StreamingLeRobotDataset
from tests.compat.lerobot.datasets import CAMERA, FPS, FRAMES, LENGTHS, STARTS, Make
from tests.pipelines.test_robot_parity import ROBOT


def test_meta_has_what_trainers_read(filmed: Make) -> None:
    dataset = filmed()
    meta = dataset.meta
    assert (meta.fps, dataset.fps) == (FPS, FPS)
    assert meta.camera_keys == meta.video_keys == [CAMERA]
    assert meta.image_keys == meta.depth_keys == []
    assert (meta.total_frames, meta.total_episodes, meta.total_tasks) == (FRAMES, len(LENGTHS), 3)
    assert meta.features is dataset.features
    assert meta.features[CAMERA]["shape"] == meta.shapes[CAMERA] == (32, 32, 3)
    assert meta.features["action"]["dtype"] == "float64"
    assert meta.names[CAMERA] == ["height", "width", "channels"]
    assert meta.robot_type is None
    assert meta.has_language_columns is False
    assert (meta.repo_id, meta.root, meta.url_root) == ("someone/something", dataset.root, str(dataset.root))
    assert meta.info["fps"] == meta.info.fps == FPS
    assert meta.chunks_size == 1000
    assert (meta.data_files_size_in_mb, meta.video_files_size_in_mb) == (100, 200)
    with pytest.raises(AttributeError, match="no 'speed'"):
        _ = meta.info.speed


def test_tasks_are_a_table_by_their_words(plain: Make) -> None:
    meta = plain().meta
    assert meta.tasks.loc["task 2"].task_index == 2
    assert meta.tasks.iloc[1].name == "task 1"
    assert meta.get_task_index("task 1") == 1
    assert meta.get_task_index("fold laundry") is None


def test_episodes_are_rows_and_columns(filmed: Make) -> None:
    episodes = filmed().meta.episodes
    assert len(episodes) == len(LENGTHS)
    assert list(episodes["length"]) == LENGTHS
    assert list(episodes["dataset_from_index"]) == STARTS
    assert episodes[3]["dataset_to_index"] == STARTS[4]
    assert episodes[-1]["tasks"] == ["task 1"]
    assert [each["episode_index"] for each in episodes] == list(range(len(LENGTHS)))
    assert episodes[3][f"videos/{CAMERA}/file_index"] == 1
    assert episodes[3][f"videos/{CAMERA}/from_timestamp"] == pytest.approx(LENGTHS[2] / FPS)
    assert {"tasks", "data/file_index"} <= set(episodes.column_names)


def test_paths_of_files_exist(filmed: Make) -> None:
    dataset = filmed()
    for episode in range(len(LENGTHS)):
        assert (dataset.root / dataset.meta.get_data_file_path(episode)).is_file()
        assert (dataset.root / dataset.meta.get_video_file_path(episode, CAMERA)).is_file()
    with pytest.raises(IndexError, match="no episode 99"):
        dataset.meta.get_data_file_path(99)


def test_stats_are_arrays_that_may_be_changed(plain: Make) -> None:
    stats = plain().meta.stats
    np.testing.assert_allclose(stats["observation.state"]["max"], [FRAMES - 1, (FRAMES - 1) / 2, 0])
    stats["observation.state"]["max"] = np.zeros(3)
    stats.setdefault("other", {})["mean"] = np.zeros(1)


def test_stats_of_a_dataset_of_lerobot_are_as_it_wrote_them() -> None:
    root = ROBOT / "two_cameras_h264"
    written = json.loads((root / "meta" / "stats.json").read_text())
    stats = StreamingLeRobotDataset("a/b", root=root).meta.stats
    assert stats is not None and stats.keys() == written.keys()
    for key, own in written.items():
        for name, value in own.items():
            np.testing.assert_array_equal(stats[key][name].reshape(np.shape(value)), value)


def test_stats_of_depth_cameras_have_the_unit_of_the_frames(plain: Make, tmp_path: Path) -> None:
    import shutil

    root = tmp_path / "dataset"
    shutil.copytree(plain().root, root)
    info = json.loads((root / "meta" / "info.json").read_text())
    info["features"]["depth"] = {
        "dtype": "image",
        "shape": [4, 4, 1],
        "names": None,
        "info": {"is_depth_map": True, "depth_unit": "m"},
    }
    (root / "meta" / "info.json").write_text(json.dumps(info))
    stats = json.loads((root / "meta" / "stats.json").read_text())
    stats["depth"] = {"mean": [[[2.0]]], "count": [7]}
    (root / "meta" / "stats.json").write_text(json.dumps(stats))
    millimetres = StreamingLeRobotDataset("a/b", root=root)
    assert millimetres.meta.depth_keys == ["depth"]
    assert millimetres.depth_output_unit == "mm"
    assert millimetres.meta.stats["depth"]["mean"].item() == 2000
    assert millimetres.meta.stats["depth"]["count"].item() == 7
    metres = StreamingLeRobotDataset("a/b", root=root, depth_output_unit="m")
    assert metres.meta.stats["depth"]["mean"].item() == 2


def test_counts_are_of_what_is_used(plain: Make) -> None:
    assert (plain().num_frames, plain().num_episodes) == (FRAMES, len(LENGTHS))
    chosen = plain(episodes=[1, 2])
    assert (chosen.num_frames, chosen.num_episodes) == (LENGTHS[1] + LENGTHS[2], 2)
    assert chosen.meta.total_frames == FRAMES


def test_a_dataset_pickles(plain: Make) -> None:
    copy = pickle.loads(pickle.dumps(plain(episodes=[1])))
    assert copy.num_frames == LENGTHS[1]
    assert copy.meta.episodes[0]["length"] == LENGTHS[0]


def test_episodes_are_filtered_by_their_rows(plain: Make) -> None:
    meta = plain().meta
    assert meta.filter_episodes(lambda row: row["length"] >= 7) == [1, 3, 5]
    assert meta.filter_episodes(lambda row: row["length"] >= 7, candidates=[5, 1, 0]) == [1, 5]
    assert meta.filter_episodes(lambda row: False) == []
