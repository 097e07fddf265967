"""``meta/info.json`` of a LeRobotDataset v3.0: features, frame rate and paths. Reads one JSON file."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from string import Formatter
from typing import Any, Literal

from penstock.manifest.errors import ManifestError

VERSION = "v3.0"
_SERIES = "v3."
PATH = "meta/info.json"
INDEX_COLUMNS = ("timestamp", "frame_index", "episode_index", "index", "task_index")
_TEXT_OR_CAMERA = ("string", "video", "image")
_NUMBERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float16", "float32", "float64")
_SHORT_NAMES = {"float": "float32", "double": "float64"}  # as the package datasets reads them
_MOST_NUMBERS = 1 << 27  # in one value: more than a camera of 8K has
_MOST_AXES = 8
_LONGEST_NAME = 255  # characters; file systems have no longer ones
_CONVERTERS = {
    "v2.1": "python -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id=ORG/NAME (of the lerobot package)",
    "v2.0": "lerobot's converters to v2.1 and then to v3.0",
}


@dataclass(frozen=True)
class Feature:
    """One column of a dataset.

    Attributes:
        dtype: ``video``, ``image``, ``string``, or the name of a numpy type.
        shape: Shape of one value; (height, width, channels) for a camera.
        names: Names of the components, as in the dataset.
        info: Description of a video in the dataset.
        is_depth: Whether pixels are distances.
    """

    dtype: str
    shape: tuple[int, ...]
    names: object
    info: Mapping[str, Any]
    is_depth: bool

    @property
    def kind(self) -> Literal["video", "image", "values"]:
        if self.dtype == "video":
            return "video"
        return "image" if self.dtype == "image" else "values"


@dataclass(frozen=True)
class Info:
    """The description of a dataset.

    Attributes:
        fps: Frames per second.
        features: Columns, by key.
        data_path: Path of a file of rows, with ``{chunk_index}`` and ``{file_index}``.
        video_path: Path of a video, also with ``{video_key}``; empty without videos.
        episodes: Number of episodes.
        frames: Number of frames of all episodes.
        files_per_chunk: Number of files of one kind in a folder.
        raw: Contents of the file.
    """

    fps: float
    features: Mapping[str, Feature]
    data_path: str
    video_path: str
    episodes: int
    frames: int
    files_per_chunk: int
    raw: Mapping[str, Any]

    @property
    def cameras(self) -> tuple[str, ...]:
        """Keys of all cameras, as videos or as images."""
        return tuple(key for key, feature in self.features.items() if feature.kind != "values")

    def of_kind(self, kind: Literal["video", "image", "values"]) -> tuple[str, ...]:
        """Return the keys of the features of a kind."""
        return tuple(key for key, feature in self.features.items() if feature.kind == kind)


def parse_info(data: bytes, name: str) -> Info:
    """Check and return ``meta/info.json``.

    Args:
        data: Bytes of the file.
        name: Name of the dataset, for messages.

    Raises:
        ManifestError: If it is damaged, or of another version.
    """
    where = f"{name}/{PATH}"
    try:
        raw = json.loads(data)
        version = str(raw.get("codebase_version"))
    except (ValueError, AttributeError, RecursionError) as error:
        raise ManifestError(f"{where}: not a JSON object: {error}") from None
    if not version.startswith(_SERIES):
        how = next((how for old, how in _CONVERTERS.items() if version.startswith(old)), "")
        advice = f"; convert it with {how}" if how else ""
        what = f"is LeRobotDataset {version}" if "codebase_version" in raw else "has no codebase_version"
        raise ManifestError(f"{where}: the dataset {what}, and {VERSION} is needed{advice}")
    try:
        info = Info(
            fps=_rate("fps", raw["fps"]),
            features={key: _feature(key, value) for key, value in _object("features", raw["features"]).items()},
            data_path=_text("data_path", raw["data_path"]),
            video_path=_text("video_path", raw.get("video_path") or ""),
            episodes=_count("total_episodes", raw["total_episodes"]),
            frames=_count("total_frames", raw["total_frames"]),
            files_per_chunk=_count("chunks_size", raw.get("chunks_size") or 1000),
            raw=raw,
        )
    except KeyError as missing:
        raise ManifestError(f"{where}: there is no {missing}") from None
    except ValueError as error:
        raise ManifestError(f"{where}: {error}") from None
    _check(info, where)
    return info


def _check(info: Info, where: str) -> None:
    """Raise if something is missing that every dataset has."""
    missing = [key for key in INDEX_COLUMNS if key not in info.features]
    if missing:
        raise ManifestError(f"{where}: there is no feature {missing[0]!r}, which every LeRobotDataset has")
    for key in INDEX_COLUMNS:
        feature = info.features[key]
        if feature.dtype in _TEXT_OR_CAMERA or math.prod(feature.shape) != 1:
            says = f"{feature.dtype} of shape {list(feature.shape)}"
            raise ManifestError(f"{where}: features: {key}: it is {says}, but must be a single number")
    if info.of_kind("video") and not info.video_path:
        raise ManifestError(f"{where}: there are video features, but no video_path")
    _check_path(f"{where}: data_path", info.data_path, ("chunk_index", "file_index"), [""])
    _check_path(
        f"{where}: video_path", info.video_path, ("video_key", "chunk_index", "file_index"), info.of_kind("video")
    )


def _check_path(where: str, path: str, names: Sequence[str], cameras: Sequence[str]) -> None:
    """Raise unless a path can only name files of the dataset. A wide number, or an attribute, is not even formatted.

    Args:
        where: File and key, for messages.
        path: Path with names in braces.
        names: Names that the path may contain.
        cameras: Values of ``video_key``.
    """
    try:
        fields = [(name, spec, conversion) for _, name, spec, conversion in Formatter().parse(path) if name is not None]
    except ValueError as error:
        raise ManifestError(f"{where}: {path[:80]!r}: {error}") from None
    for name, spec, conversion in fields:
        width = "" if name == "video_key" else "(0?[1-9]d?|d)?"
        if name not in names or conversion or not re.fullmatch(width, spec or ""):
            may = ", ".join(f"{{{each}}}" for each in names)
            raise ManifestError(
                f"{where}: {path[:80]!r} may contain {may}, with a width of at most 9, and nothing else"
            )
    for camera in cameras:
        found = path.format(video_key=camera, chunk_index=0, file_index=0)
        if (
            not found
            or found.startswith("/")
            or ".." in PurePosixPath(found).parts
            or max(map(len, PurePosixPath(found).parts), default=0) > _LONGEST_NAME
            or re.search("[\0\ud800-\udfff]", found)
        ):
            raise ManifestError(f"{where}: {found[:80]!r} is not the path of a file in the dataset")


def _rate(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1e-6 <= value <= 1e6:
        raise ValueError(f"{name}: {str(value)[:80]!r} is not a number of frames per second, from 1e-6 to 1e6")
    return float(value)


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value % 1 or not 0 <= value < 1 << 63:
        raise ValueError(f"{name}: {value!r} is not a whole number from 0 on")
    return int(value)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name}: {str(value)[:80]!r} is not a text")
    return value


def _object(name: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{name}: {str(value)[:80]!r} is not a JSON object")
    return value


def _feature(key: str, raw: object) -> Feature:
    name = f"features: {key}"
    own = _object(name, raw)
    try:
        return _checked_feature(own)
    except KeyError as missing:
        raise ValueError(f"{name}: there is no {missing}") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _checked_feature(raw: Mapping[str, object]) -> Feature:
    dtype = str(raw["dtype"])
    dtype = _SHORT_NAMES.get(dtype, dtype)
    if dtype not in (*_TEXT_OR_CAMERA, *_NUMBERS, *_FLOATS):
        raise ValueError(
            f"the type {dtype[:80]!r} is not supported; there are {', '.join(_TEXT_OR_CAMERA + _NUMBERS + _FLOATS)}"
        )
    shape = _shape(raw["shape"])
    info = _object("info", raw.get("info") or raw.get("video_info") or {})
    names = raw.get("names")
    if dtype in ("video", "image"):
        shape = _height_width_channels(shape, names)
    is_depth = bool(info.get("video.is_depth_map") or info.get("is_depth_map"))
    return Feature(dtype, shape, names, info, is_depth)


def _shape(raw: object) -> tuple[int, ...]:
    """Return a shape. It is checked before anything of that size is allocated."""
    if not isinstance(raw, list) or len(raw) > _MOST_AXES or any(type(size) is not int or size < 0 for size in raw):
        raise ValueError(f"the shape {str(raw)[:80]} is not a list of at most {_MOST_AXES} whole numbers from 0 on")
    if math.prod(raw) > _MOST_NUMBERS:
        raise ValueError(f"the shape {str(raw)[:80]} has more than {_MOST_NUMBERS:,} numbers")
    return tuple(raw)


def _height_width_channels(shape: tuple[int, ...], names: object) -> tuple[int, ...]:
    """Return the shape of a camera with the channels last; some datasets have them first."""
    if len(shape) == 2:
        return (*shape, 1)
    if len(shape) != 3:
        raise ValueError(f"a camera of shape {list(shape)}; height, width and channels are needed")
    listed = list(names) if isinstance(names, list | tuple) and len(names) == 3 else []
    channels_first = (
        str(listed[0]).startswith("channel") if listed else shape[0] in (1, 3, 4) and shape[2] not in (1, 3, 4)
    )
    return (shape[1], shape[2], shape[0]) if channels_first else shape
