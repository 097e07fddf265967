"""What ``meta/info.json`` says, and what is wrong with it."""

import json
from typing import Any

import pytest

from penstock.manifest.errors import ManifestError
from penstock.readers.lerobot.info import INDEX_COLUMNS, parse_info

INDEX = {key: {"dtype": "int64", "shape": [1], "names": None} for key in INDEX_COLUMNS}


def info(features: dict[str, Any] | None = None, **changes: Any) -> bytes:
    raw = {
        "codebase_version": "v3.0",
        "fps": 30,
        "total_episodes": 2,
        "total_frames": 20,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "features": {**(features or {}), **INDEX},
        **changes,
    }
    return json.dumps({key: value for key, value in raw.items() if value is not ...}).encode()


def camera(shape: list[int], **more: Any) -> dict[str, Any]:
    return {"dtype": "video", "shape": shape, **more}


WITHOUT_INDEX = json.dumps({**json.loads(info()), "features": {}}).encode()


def test_features_are_cameras_images_or_values() -> None:
    found = parse_info(
        info({"top": camera([96, 64, 3]), "wrist": {"dtype": "image", "shape": [8, 8, 3]}, "state": INDEX["index"]}),
        "robot",
    )
    assert found.of_kind("video") == ("top",)
    assert found.of_kind("image") == ("wrist",)
    assert found.of_kind("values") == ("state", *INDEX_COLUMNS)
    assert found.cameras == ("top", "wrist")
    assert (found.fps, found.episodes, found.frames, found.files_per_chunk) == (30, 2, 20, 1000)


@pytest.mark.parametrize(
    ("shape", "names", "expected"),
    [
        ([96, 64, 3], ["height", "width", "channels"], (96, 64, 3)),
        ([3, 96, 64], ["channels", "height", "width"], (96, 64, 3)),
        ([3, 96, 64], None, (96, 64, 3)),
        ([96, 64, 3], None, (96, 64, 3)),
        ([3, 3, 3], ["channel", "height", "width"], (3, 3, 3)),
        ([96, 64], None, (96, 64, 1)),
    ],
)
def test_cameras_have_their_channels_last(shape: list[int], names: Any, expected: tuple[int, ...]) -> None:
    found = parse_info(info({"top": camera(shape, names=names)}), "robot")
    assert found.features["top"].shape == expected


@pytest.mark.parametrize("where", ["info", "video_info"])
@pytest.mark.parametrize("key", ["video.is_depth_map", "is_depth_map"])
def test_a_depth_camera_is_one_that_info_says_is(where: str, key: str) -> None:
    found = parse_info(info({"top": camera([96, 64, 1], **{where: {key: True}}), "rgb": camera([8, 8, 3])}), "robot")
    assert found.features["top"].is_depth and not found.features["rgb"].is_depth


@pytest.mark.parametrize(
    ("version", "advice"),
    [("v2.1", "convert it with python -m lerobot.scripts.convert_dataset_v21_to_v30"), ("v2.0", "converters to v2.1")],
)
def test_an_older_version_is_refused_with_the_name_of_the_converter(version: str, advice: str) -> None:
    with pytest.raises(ManifestError, match=f"robot/meta/info.json: the dataset is LeRobotDataset {version}") as error:
        parse_info(info(codebase_version=version), "robot")
    assert advice in str(error.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "robot/meta/info.json: not a JSON object"),
        (b"[]", "robot/meta/info.json: not a JSON object"),
        (info(codebase_version="v4.0"), "is LeRobotDataset v4.0, and v3.0 is needed"),
        (info(codebase_version=...), "the dataset has no codebase_version, and v3.0 is needed"),
        (info(fps=...), "there is no 'fps'"),
        (info(fps=0), "fps: 0 is not a positive number"),
        (info(fps="fast"), "could not convert"),
        (info(total_frames=...), "there is no 'total_frames'"),
        (info({"a": {"shape": [1]}}), "features: a: there is no 'dtype'"),
        (info({"a": {"dtype": "float32"}}), "features: a: there is no 'shape'"),
        (info({"a": {"dtype": "colour", "shape": [1]}}), "features: a: data type 'colour' not understood"),
        (info({"a": camera([1, 2, 3, 4])}), r"features: a: a camera of shape \[1, 2, 3, 4\]"),
        (info({"a": 3}), "features: a: "),
        (info({"top": camera([8, 8, 3])}, video_path=None), "there are video features, but no video_path"),
        (info(data_path="data/{episode_chunk}.parquet"), r"data_path: 'data/\{episode_chunk\}.parquet' may contain"),
        (WITHOUT_INDEX, "there is no feature 'timestamp', which every LeRobotDataset has"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(data: bytes, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        parse_info(data, "robot")
