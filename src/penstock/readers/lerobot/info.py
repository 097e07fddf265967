"""``meta/info.json`` of a LeRobotDataset v3.0: features, frame rate and paths. Reads one JSON file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from penstock.manifest.errors import ManifestError

VERSION = "v3.0"
_SERIES = "v3."
PATH = "meta/info.json"
INDEX_COLUMNS = ("timestamp", "frame_index", "episode_index", "index", "task_index")
_CONVERTERS = {
    "v2.1": "python -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id=ORG/NAME (of the lerobot package)",
    "v2.0": "lerobot's converters to v2.1 and then to v3.0",
}


@dataclass(frozen=True)
class Feature:
    """One column of a dataset.

    Attributes:
        dtype: ``video``, ``image``, ``string``, or the name of a numpy type.
        shape: of one value; of a camera (height, width, channels).
        names: of the value's components, as the dataset has them.
        info: what the dataset says of a video.
        is_depth: whether pixels are distances.
    """

    dtype: str
    shape: tuple[int, ...]
    names: Any
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
        fps: frames per second.
        features: the columns, by key.
        data_path: of a file of rows, with ``{chunk_index}`` and ``{file_index}``.
        video_path: of a video, also with ``{video_key}``; empty without videos.
        episodes: how many there are.
        frames: how many there are, of all episodes.
        files_per_chunk: files of one kind in a folder.
        raw: all of the file.
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
        data: the bytes of the file.
        name: of the dataset, for messages.

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
            fps=_positive("fps", float(raw["fps"])),
            features={str(key): _feature(str(key), value) for key, value in raw["features"].items()},
            data_path=str(raw["data_path"]),
            video_path=str(raw.get("video_path") or ""),
            episodes=int(raw["total_episodes"]),
            frames=int(raw["total_frames"]),
            files_per_chunk=int(_positive("chunks_size", raw.get("chunks_size") or 1000)),
            raw=raw,
        )
    except KeyError as missing:
        raise ManifestError(f"{where}: there is no {missing}") from None
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ManifestError(f"{where}: {error}") from None
    _check(info, where)
    return info


def _check(info: Info, where: str) -> None:
    """Raise what every dataset must have and this one has not."""
    missing = [key for key in INDEX_COLUMNS if key not in info.features]
    if missing:
        raise ManifestError(f"{where}: there is no feature {missing[0]!r}, which every LeRobotDataset has")
    if info.of_kind("video") and not info.video_path:
        raise ManifestError(f"{where}: there are video features, but no video_path")
    for name, path in (("data_path", info.data_path), ("video_path", info.video_path)):
        try:
            path.format(video_key="", chunk_index=0, file_index=0)
        except (KeyError, IndexError, ValueError, AttributeError):
            names = "{video_key}, {chunk_index} and {file_index}"
            raise ManifestError(f"{where}: {name}: {path!r} may contain {names}, and no other names") from None


def _positive(name: str, value: float) -> float:
    if not 0 < value < float("inf"):
        raise ValueError(f"{name}: {value:g} is not a positive number")
    return value


def _feature(key: str, raw: Mapping[str, Any]) -> Feature:
    try:
        return _checked_feature(raw)
    except KeyError as missing:
        raise ValueError(f"features: {key}: there is no {missing}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"features: {key}: {error}") from None


def _checked_feature(raw: Mapping[str, Any]) -> Feature:
    dtype = str(raw["dtype"])
    if dtype not in ("video", "image", "string"):
        np.dtype(dtype)
    shape = tuple(int(size) for size in raw["shape"])
    info = raw.get("info") or raw.get("video_info") or {}
    names = raw.get("names")
    if dtype in ("video", "image"):
        shape = _height_width_channels(shape, names)
    is_depth = bool(info.get("video.is_depth_map") or info.get("is_depth_map"))
    return Feature(dtype, shape, names, info, is_depth)


def _height_width_channels(shape: tuple[int, ...], names: Any) -> tuple[int, ...]:
    """Return the shape of a camera with the channels last; some datasets have them first."""
    if len(shape) == 2:
        return (*shape, 1)
    if len(shape) != 3:
        raise ValueError(f"a camera of shape {list(shape)}; height, width and channels are needed")
    listed = list(names) if isinstance(names, list | tuple) and len(names) == 3 else []
    channels_first = listed[0].startswith("channel") if listed else shape[0] in (1, 3, 4) and shape[2] not in (1, 3, 4)
    return (shape[1], shape[2], shape[0]) if channels_first else shape
