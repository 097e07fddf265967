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
        (info(data_path=None), "data_path: 'None' is not a text"),
        (info({"top": camera([8, 8, 3])}, video_path=3), "video_path: '3' is not a text"),
        (info().replace(b'"features": {', b'"features": [], "f": {'), r"features: '\[\]' is not a JSON object"),
        (info({"top": camera([8, 8, 3], info=[1])}), r"features: top: info: '\[1\]' is not a JSON object"),
        (info(total_frames=...), "there is no 'total_frames'"),
        (info({"a": {"shape": [1]}}), "features: a: there is no 'dtype'"),
        (info({"a": {"dtype": "float32"}}), "features: a: there is no 'shape'"),
        (info({"a": {"dtype": "colour", "shape": [1]}}), "features: a: the type 'colour' is not supported"),
        (info({"a": camera([1, 2, 3, 4])}), r"features: a: a camera of shape \[1, 2, 3, 4\]"),
        (info({"a": 3}), "features: a: '3' is not a JSON object"),
        (info({"top": camera([8, 8, 3])}, video_path=None), "there are video features, but no video_path"),
        (info(data_path="data/{episode_chunk}.parquet"), r"data_path: 'data/\{episode_chunk\}.parquet' may contain"),
        (WITHOUT_INDEX, "there is no feature 'timestamp', which every LeRobotDataset has"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(data: bytes, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        parse_info(data, "robot")


@pytest.mark.parametrize("dtype", ["O", "f4,f4", "S3", "V8", "complex64", "datetime64", ">f4", "(2,)f4", "float128"])
def test_types_other_than_those_of_numbers_are_refused(dtype: str) -> None:
    with pytest.raises(ManifestError, match=r"features: a: the type .* is not supported; there are string"):
        parse_info(info({"a": {"dtype": dtype, "shape": [1]}}), "robot")


@pytest.mark.parametrize(
    "shape", [[-3], [3, 10**12], [2**64], [1] * 99, [1.5], ["3"], [True], "123", 3, None, [[3]], {"3": 3}]
)
@pytest.mark.parametrize("dtype", ["float32", "video"])
def test_a_shape_that_no_value_can_have_is_refused(dtype: str, shape: Any) -> None:
    with pytest.raises(ManifestError, match=r"features: a: the shape .* (is not a list of|has more than)"):
        parse_info(info({"a": {"dtype": dtype, "shape": shape}}), "robot")


@pytest.mark.parametrize("key", INDEX_COLUMNS)
@pytest.mark.parametrize("change", [{"shape": [2]}, {"shape": [0]}, {"dtype": "string"}, {"dtype": "video"}])
def test_columns_that_say_which_frame_it_is_are_single_numbers(key: str, change: dict[str, Any]) -> None:
    raw = json.loads(info(video_path="a"))
    raw["features"][key] |= change
    with pytest.raises(ManifestError, match=f"features: {key}: "):
        parse_info(json.dumps(raw).encode(), "robot")


@pytest.mark.parametrize("name", ["data_path", "video_path"])
@pytest.mark.parametrize(
    "field",
    [
        "{chunk_index:0200000000d}",
        "{chunk_index:010d}",
        "{chunk_index:{file_index}d}",
        "{chunk_index!r}",
        "{chunk_index:,}",
        "{chunk_index.real}",
        "{video_key.__class__}",
        "{video_key[0]}",
        "{video_key:999999999}",
        "{episode_index}",
        "{}",
        "{0}",
        "{",
        "}",
    ],
)
def test_a_path_has_only_the_known_names_and_no_wide_numbers(name: str, field: str) -> None:
    with pytest.raises(ManifestError, match=f"robot/meta/info.json: {name}: "):
        parse_info(info({"top": camera([8, 8, 3])}, **{name: f"a/{field}/b"}), "robot")


def test_rows_have_a_path() -> None:
    with pytest.raises(ManifestError, match="data_path: '' is not the path of a file in the dataset"):
        parse_info(info(data_path=""), "robot")


def test_rows_have_no_path_per_camera() -> None:
    with pytest.raises(ManifestError, match=r"data_path: .* may contain \{chunk_index\}, \{file_index\}, with"):
        parse_info(info(data_path="data/{video_key}.parquet"), "robot")


@pytest.mark.parametrize(
    "path", ["../secret", "a/../../b", "/etc/passwd", "a/..", "a\0b", "a\ud800b", "a/" + "b" * 256]
)
@pytest.mark.parametrize("name", ["data_path", "video_path"])
def test_a_path_stays_in_the_dataset(name: str, path: str) -> None:
    with pytest.raises(ManifestError, match=f"{name}: .* is not the path of a file in the dataset"):
        parse_info(info({"top": camera([8, 8, 3])}, **{name: path}), "robot")


def test_the_name_of_a_camera_does_not_lead_out_of_the_dataset() -> None:
    with pytest.raises(ManifestError, match=r"video_path: .* is not the path of a file in the dataset"):
        parse_info(info({"../../top": camera([8, 8, 3])}), "robot")


@pytest.mark.parametrize("path", ["{chunk_index}/{file_index:d}", "{chunk_index:3}-{file_index:09d}", "{{a}}..b/...c"])
def test_other_paths_are_taken(path: str) -> None:
    assert parse_info(info(data_path=path), "robot").data_path == path


@pytest.mark.parametrize("value", [0, -1, 1e-308, 1e308, True, "30", None, float("inf"), float("nan"), [3]])
def test_the_frames_per_second_are_a_number_that_can_be(value: Any) -> None:
    with pytest.raises(ManifestError, match=r"robot/meta/info.json: fps: .* is not a number of frames per second"):
        parse_info(info(fps=value), "robot")


@pytest.mark.parametrize("name", ["total_episodes", "total_frames", "chunks_size"])
@pytest.mark.parametrize("value", [-1, 2.5, True, "3", 2**63, float("inf"), float("nan"), [3]])
def test_counts_are_whole_numbers(name: str, value: Any) -> None:
    with pytest.raises(ManifestError, match=f"robot/meta/info.json: {name}: .* is not a whole number from 0 on"):
        parse_info(info(**{name: value}), "robot")


def test_short_names_of_types_are_those_of_the_package_datasets() -> None:
    found = parse_info(info({"a": {"dtype": "float", "shape": [1]}, "b": {"dtype": "double", "shape": []}}), "robot")
    assert (found.features["a"].dtype, found.features["b"].dtype) == ("float32", "float64")
