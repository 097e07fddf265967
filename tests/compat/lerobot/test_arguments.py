"""LeRobot's arguments: their names, order and defaults, and that each changes what it should."""

import inspect
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import penstock
from penstock.compat.lerobot import StreamingLeRobotDataset, VideoDecoderCache
from penstock.config import ConfigError
from penstock.curate.robot.writer import Layout
from penstock.manifest.errors import ManifestError
from penstock.media.video.torchcodec import TorchcodecDecoders
from penstock.readers.errors import ContentError
from tests.compat.lerobot.datasets import CAMERA, FRAMES, LENGTHS, STARTS, Make, write_filmed
from tests.robots import EPISODES, edit_table, write_robot

THEIRS = {
    "repo_id": inspect.Parameter.empty,
    "root": None,
    "episodes": None,
    "image_transforms": None,
    "delta_timestamps": None,
    "tolerance_s": 1e-4,
    "revision": None,
    "force_cache_sync": False,
    "streaming": True,
    "buffer_size": None,  # 1000 there; here it is None, to warn if it is given
    "max_num_shards": None,  # 16 there; all files are used here
    "seed": 42,
    "rng": None,
    "shuffle": True,
    "return_uint8": False,
    "depth_output_unit": "mm",
}
THEIRS_BY_NAME = {"repo_type": "dataset", "token": None}
OURS = {
    "episode_pool_size": 256,
    "batch_size": None,
    "rank": None,
    "world_size": None,
    "exclude_episodes": None,
    "drop_n_last_frames": 0,
    "on_error": "raise",
    "cache": None,
}
THEIR_NEWER = {  # of an unreleased branch
    "video_backend": None,
    "data_root": None,
    "max_open_decoders": None,
    "decode_threads": None,
    "byte_budget_gb": None,
    "repeat": False,
}


def order(dataset: Any) -> list[int]:
    return [int(item["index"]) for item in dataset]


def test_the_arguments_are_lerobot_s_in_their_order_then_our_own_by_name() -> None:
    parameters = dict(inspect.signature(StreamingLeRobotDataset).parameters)
    assert list(parameters) == [*THEIRS, *THEIRS_BY_NAME, *OURS, *THEIR_NEWER]
    defaults = {**THEIRS, **THEIRS_BY_NAME, **OURS, **THEIR_NEWER}
    assert {name: each.default for name, each in parameters.items()} == defaults
    by_name = [name for name, each in parameters.items() if each.kind is inspect.Parameter.KEYWORD_ONLY]
    assert by_name == [*THEIRS_BY_NAME, *OURS, *THEIR_NEWER]


def test_the_class_is_exported_by_penstock_and_an_iterable_dataset(plain: Make) -> None:
    assert penstock.StreamingLeRobotDataset is StreamingLeRobotDataset
    assert isinstance(plain(), torch.utils.data.IterableDataset)


def test_arguments_may_be_given_by_place(plain: Make) -> None:
    dataset = StreamingLeRobotDataset("a/b", str(plain().root), [2, 0], None, {"action": [0.0, 0.1]}, 1e-3)
    assert (dataset.repo_id, dataset.root, dataset.episodes) == ("a/b", plain().root, [2, 0])
    assert next(iter(dataset))["action"].shape == (2, 2)


def test_episodes_and_exclude_episodes_choose(plain: Make) -> None:
    def frames_of(*numbers: int) -> list[int]:
        return [STARTS[number] + frame for number in numbers for frame in range(LENGTHS[number])]

    assert sorted(order(plain(episodes=[5, 1]))) == frames_of(1, 5)
    assert sorted(order(plain(exclude_episodes=[0, 1, 2, 3, 4, 5]))) == frames_of(6, 7)
    assert order(plain(episodes=[1, 2], exclude_episodes=[1], shuffle=False)) == frames_of(2)
    with pytest.raises(ManifestError, match="no episode 8"):
        plain(episodes=[8])
    with pytest.raises(ManifestError, match="no frame is left"):
        plain(episodes=[])


def test_drop_n_last_frames_drops_them_but_windows_still_reach_them(plain: Make) -> None:
    items = list(plain(drop_n_last_frames=4, delta_timestamps={"count": [0, 0.1, 0.2, 0.3, 0.4]}, shuffle=False))
    kept = [STARTS[number] + frame for number, length in enumerate(LENGTHS) for frame in range(length - 4)]
    assert [int(item["index"]) for item in items] == kept
    assert all(item["count"].tolist() == list(range(int(item["index"]), int(item["index"]) + 5)) for item in items)
    assert not any(item["count_is_pad"].any() for item in items)
    dataset = plain(drop_n_last_frames=4)
    assert (dataset.num_frames, dataset.num_episodes) == (len(kept), 7)  # one has 4 frames


def test_image_transforms_are_called_with_the_frames_of_each_camera(filmed: Make) -> None:
    item = next(iter(filmed(image_transforms=lambda frames: frames[..., :7], delta_timestamps={CAMERA: [0, 0.1]})))
    assert item[CAMERA].shape == (2, 3, 32, 7)
    with pytest.raises(TypeError, match="callable"):
        filmed(image_transforms="resize")


def test_delta_timestamps_must_be_of_features_and_on_the_grid_of_frames(plain: Make) -> None:
    with pytest.raises((ConfigError, ManifestError), match="speed"):
        plain(delta_timestamps={"speed": [0.0]})
    with pytest.raises((ConfigError, ManifestError), match=r"0\.05"):
        plain(delta_timestamps={"action": [0.05]})
    assert next(iter(plain(delta_timestamps={"action": [0.101]}, tolerance_s=0.01)))["action"].shape == (1, 2)


def test_tolerance_decides_whether_a_frame_that_is_off_its_time_is_used(filmed: Make, tmp_path: Path) -> None:
    root = shifted(write_filmed(tmp_path / "dataset"), 0.004)
    with pytest.raises(ContentError, match="tolerance_s"):
        order(filmed(root=root))
    assert len(order(filmed(root=root, tolerance_s=0.01))) == FRAMES


def test_on_error_substitute_draws_other_frames(filmed: Make, tmp_path: Path) -> None:
    root = write_filmed(tmp_path / "dataset")
    video = root / "videos" / CAMERA / "chunk-000" / "file-001.mp4"
    video.write_bytes(video.read_bytes()[:-2000] + bytes(2000))
    with pytest.raises(ContentError, match="file-001"):
        order(filmed(root=root))
    assert len(order(filmed(root=root, on_error="substitute"))) == FRAMES


def test_rng_gives_the_seed(plain: Make) -> None:
    first = plain(rng=np.random.default_rng(7))
    assert first.seed != 42
    assert order(plain(rng=np.random.default_rng(7), seed=1)) == order(first) != order(plain())
    assert order(plain(seed=first.seed)) == order(plain(rng=np.random.default_rng(7)))


@pytest.mark.parametrize("ignored", [{"force_cache_sync": True}, {"max_num_shards": 1}, {"max_num_shards": 100}])
def test_what_lerobot_needs_and_penstock_does_not_changes_nothing(plain: Make, ignored: dict[str, Any]) -> None:
    assert order(plain(**ignored)) == order(plain())


def test_return_uint8_leaves_frames_of_videos_as_they_are_decoded(filmed: Make) -> None:
    floats = next(iter(filmed()))[CAMERA]
    bytes_ = next(iter(filmed(return_uint8=True)))[CAMERA]
    assert (floats.dtype, bytes_.dtype) == (torch.float32, torch.uint8)
    assert torch.equal(floats, bytes_.to(torch.float32) / 255)


def test_episode_pool_size_is_how_many_episodes_mix(plain: Make) -> None:
    numbers = [int(item["episode_index"]) for item in plain(episode_pool_size=1, batch_size=1)]
    changes = sum(one != other for one, other in pairwise(numbers))
    assert changes == len(LENGTHS) - 1
    assert order(plain(episode_pool_size=2)) != order(plain(episode_pool_size=8))


def test_rank_and_world_size_are_found_if_they_are_not_given(plain: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    given = order(plain(batch_size=5, rank=1, world_size=2))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert order(plain(batch_size=5)) == given
    assert len(order(plain(batch_size=5, rank=0, world_size=1))) == FRAMES


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0},
        {"batch_size": "many"},
        {"rank": 2, "world_size": 2},
        {"rank": -1, "world_size": 2},
        {"world_size": 0},
        {"episode_pool_size": 0},
        {"drop_n_last_frames": -1},
        {"on_error": "ignore"},
        {"depth_output_unit": "cm"},
        {"tolerance_s": 0},
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(plain: Make, wrong: dict[str, Any]) -> None:
    name = {"world_size": "world", "episode_pool_size": "pool", "depth_output_unit": "depth_unit"}
    [argument, *_] = wrong
    with pytest.raises(ValueError, match=name.get(argument, argument)):
        plain(**wrong)


@pytest.mark.parametrize("wrong", [{"rng": 3}, {"image_transforms": 3}])
def test_arguments_of_another_type_are_refused_by_name(plain: Make, wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"^{next(iter(wrong))} "):
        plain(**wrong)


def test_the_cache_of_decoders_counts_over_all_workers(filmed: Make) -> None:
    from tests.compat.lerobot.datasets import indexes, loader_of

    dataset = filmed(batch_size=5)
    assert isinstance(dataset.video_decoder_cache, VideoDecoderCache)
    assert dataset.video_decoder_cache.stats() == {"hits": 0, "misses": 0, "evictions": 0}
    indexes(loader_of(dataset, 5, 2))
    counts = dataset.video_decoder_cache.stats()
    assert counts["misses"] >= 2  # each worker has decoders of its own
    assert counts["hits"] + counts["misses"] > 20
    assert dataset.video_decoder_cache.size() == 0  # none in this process
    assert VideoDecoderCache(max_size=64).max_size == 64
    assert VideoDecoderCache(max_size=1000).max_size == 128


@pytest.mark.parametrize("backend", ["pyav", "video_reader"])
def test_a_video_backend_gives_the_same_pixels(filmed: Make, backend: str) -> None:
    for ours, other in zip(filmed(), filmed(video_backend=backend), strict=True):
        assert torch.equal(ours[CAMERA], other[CAMERA])


def test_torchcodec_is_a_video_backend_and_others_are_refused(filmed: Make) -> None:
    assert isinstance(filmed(video_backend="torchcodec").video_decoder_cache, TorchcodecDecoders)
    with pytest.raises(ValueError, match="video_backend must be one of pyav, torchcodec, video_reader, not 'cuda'"):
        filmed(video_backend="cuda")


def test_a_data_root_is_where_the_dataset_is(plain: Make, tmp_path: Path) -> None:
    elsewhere = Path(shutil.copytree(plain().root, tmp_path / "copy"))
    dataset = StreamingLeRobotDataset("someone/something", data_root=elsewhere)
    assert dataset.root == elsewhere and dataset.streaming_from_local
    assert len(order(dataset)) == FRAMES


def test_decoders_are_kept_open_up_to_a_number(filmed: Make) -> None:
    assert filmed(max_open_decoders=20).video_decoder_cache.max_size == 20
    assert filmed(max_open_decoders=1000).video_decoder_cache.max_size == 128
    with pytest.raises(ValueError, match="max_open_decoders must be at least 1, not 0"):
        filmed(max_open_decoders=0)


def test_windows_in_frames_are_those_in_seconds_times_the_rate(plain: Make) -> None:
    assert plain().delta_indices is None
    assert plain(delta_timestamps={"action": [-0.3, 0.0, 0.7]}).delta_indices == {"action": [-3, 0, 7]}


def test_hf_dataset_has_all_rows_in_order(plain: Make) -> None:
    rows = plain(episodes=[2]).hf_dataset
    assert [row["index"] for row in rows] == list(range(FRAMES))
    assert rows.num_shards == 3


@pytest.mark.parametrize("images", [(), (CAMERA,)])
@pytest.mark.parametrize("lengths", [[1], [1, 3, 1], [1, 1]])
def test_episodes_of_one_frame_are_like_others(tmp_path: Path, lengths: list[int], images: tuple[str, ...]) -> None:
    layout = Layout(episodes_per_video_file=2, episodes_per_data_file=2, images=images)
    root = write_robot(tmp_path / "robot", lengths, [CAMERA], layout=layout)
    deltas = {CAMERA: [-1 / 30, 0.0, 1 / 30], "action": [0.0, 1 / 30]}
    plain = list(StreamingLeRobotDataset("a/b", root=root, shuffle=False))
    windows = list(StreamingLeRobotDataset("a/b", root=root, shuffle=False, delta_timestamps=deltas))
    assert [int(item["index"]) for item in plain] == list(range(sum(lengths)))
    assert torch.equal(plain[0][CAMERA], windows[0][CAMERA][1])
    assert windows[0][f"{CAMERA}_is_pad"].tolist() == [True, False, lengths[0] == 1]


def test_an_episode_of_one_frame_may_have_a_video_without_a_duration(tmp_path: Path) -> None:
    root = write_robot(tmp_path / "robot", [1], [CAMERA])
    edit_table(root, EPISODES, {f"videos/{CAMERA}/to_timestamp": {0: 0.0}})
    assert len(list(StreamingLeRobotDataset("a/b", root=root))) == 1


def shifted(root: Path, seconds: float) -> Path:
    """Write other times into the rows of a dataset."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in root.glob("data/*/*.parquet"):
        table = pq.read_table(path)
        times = table["timestamp"].to_numpy() + np.float32(seconds)
        place = table.schema.get_field_index("timestamp")
        pq.write_table(table.set_column(place, "timestamp", pa.array(times)), path)
    return root
