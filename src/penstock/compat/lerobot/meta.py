"""What trainers read of a dataset's ``meta``, under LeRobot's names. Reads nothing but ``meta/``."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from penstock.readers.lerobot.dataset import Dataset

_LANGUAGE_COLUMNS = ("language_persistent", "language_events")
_MILLIMETRES = {"mm": 1.0, "m": 1000.0}


class InfoFile(dict[str, Any]):
    """``meta/info.json``: keys are attributes, too, as in newer versions of LeRobot."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"meta/info.json has no {name!r}") from None


class EpisodeTable:
    """The episodes of a dataset: a row by its place, as a dict, or a column by its name, as a list."""

    def __init__(self, dataset: Dataset) -> None:
        episodes = dataset.episodes
        self._columns: dict[str, list[Any]] = {
            "episode_index": episodes.index.tolist(),
            "tasks": episodes.tasks.to_pylist(),
            "length": episodes.length.tolist(),
            "data/chunk_index": episodes.chunk.tolist(),
            "data/file_index": episodes.file.tolist(),
            "dataset_from_index": episodes.start.tolist(),
            "dataset_to_index": (episodes.start + episodes.length).tolist(),
        }
        for camera, seconds in episodes.videos.items():
            self._columns[f"videos/{camera}/chunk_index"] = seconds.chunk.tolist()
            self._columns[f"videos/{camera}/file_index"] = seconds.file.tolist()
            self._columns[f"videos/{camera}/from_timestamp"] = seconds.start.tolist()
            self._columns[f"videos/{camera}/to_timestamp"] = seconds.end.tolist()

    @property
    def column_names(self) -> list[str]:
        return list(self._columns)

    def __len__(self) -> int:
        return len(self._columns["length"])

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, str):
            return self._columns[key]
        return {name: column[key] for name, column in self._columns.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[number] for number in range(len(self)))


class Metadata:
    """A dataset's ``meta``, as LeRobot has it.

    Args:
        dataset: Metadata of the dataset.
        repo_id: Dataset on the hub.
        root: Folder of the dataset; None if it is remote.
        url_root: Folder or URL of the dataset.
        revision: Revision on the hub.
        depth_unit: Unit of depth frames.

    Attributes:
        info: Content of ``meta/info.json``.
        features: Features by key.
        stats: Statistics by feature, as arrays that may be changed. Those of depth cameras are in ``depth_unit``.
    """

    def __init__(
        self,
        dataset: Dataset,
        repo_id: str,
        root: Path | None,
        url_root: str,
        revision: str | None,
        depth_unit: Literal["mm", "m"] = "mm",
    ) -> None:
        self._dataset = dataset
        self.repo_id = repo_id
        self.root = root
        self.url_root = url_root
        self.revision = revision
        features = dataset.info.raw["features"]
        self.features: dict[str, dict[str, Any]] = {
            key: {**feature, "shape": tuple(feature["shape"])} for key, feature in features.items()
        }
        self.info = InfoFile({**dataset.info.raw, "features": self.features})
        self.stats: dict[str, dict[str, Any]] | None = _arrays(dataset.stats) if dataset.stats else None
        self._scale_depth(depth_unit)

    def _scale_depth(self, unit: str) -> None:
        for key in self.depth_keys:
            recorded = self._dataset.info.features[key].info.get("depth_unit")
            if self.stats is not None and key in self.stats and recorded in _MILLIMETRES:
                factor = _MILLIMETRES[recorded] / _MILLIMETRES[unit]
                self.stats[key] |= {name: value * factor for name, value in self.stats[key].items() if name != "count"}

    @cached_property
    def episodes(self) -> EpisodeTable:
        return EpisodeTable(self._dataset)

    @property
    def tasks(self) -> Any:
        """A pandas DataFrame, with the task in words as its index."""
        import pandas as pd

        names = pd.Index(list(self._dataset.tasks), name="task")
        return pd.DataFrame({"task_index": np.arange(len(names))}, index=names)

    def get_task_index(self, task: str) -> int | None:
        """Return the number of a task, or None if there is no such task."""
        return list(self._dataset.tasks).index(task) if task in self._dataset.tasks else None

    @property
    def camera_keys(self) -> list[str]:
        return list(self._dataset.info.cameras)

    @property
    def video_keys(self) -> list[str]:
        return list(self._dataset.info.of_kind("video"))

    @property
    def image_keys(self) -> list[str]:
        return list(self._dataset.info.of_kind("image"))

    @property
    def depth_keys(self) -> list[str]:
        return [key for key, feature in self._dataset.info.features.items() if feature.is_depth]

    @property
    def names(self) -> dict[str, Any]:
        return {key: feature.names for key, feature in self._dataset.info.features.items()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {key: feature["shape"] for key, feature in self.features.items()}

    @property
    def fps(self) -> int:
        fps: int = self.info["fps"]
        return fps

    @property
    def robot_type(self) -> str | None:
        kind: str | None = self.info.get("robot_type")
        return kind

    @property
    def total_episodes(self) -> int:
        return self._dataset.info.episodes

    @property
    def total_frames(self) -> int:
        return self._dataset.info.frames

    @property
    def total_tasks(self) -> int:
        return len(self._dataset.tasks)

    @property
    def chunks_size(self) -> int:
        return self._dataset.info.files_per_chunk

    @property
    def data_files_size_in_mb(self) -> int | None:
        size: int | None = self.info.get("data_files_size_in_mb")
        return size

    @property
    def video_files_size_in_mb(self) -> int | None:
        size: int | None = self.info.get("video_files_size_in_mb")
        return size

    @property
    def data_path(self) -> str:
        return self._dataset.info.data_path

    @property
    def video_path(self) -> str | None:
        return self._dataset.info.video_path or None

    @property
    def has_language_columns(self) -> bool:
        return any(key in self.features for key in _LANGUAGE_COLUMNS)

    def filter_episodes(
        self, predicate: Callable[[dict[str, Any]], bool], candidates: Collection[int] | None = None
    ) -> list[int]:
        """Return the numbers of the episodes whose rows of ``episodes`` a function accepts, sorted.

        Args:
            predicate: Function of a row.
            candidates: Numbers of the episodes to check; None for all.
        """
        known = (
            self.episodes
            if candidates is None
            else (row for row in self.episodes if row["episode_index"] in candidates)
        )
        return sorted(row["episode_index"] for row in known if predicate(row))

    def get_data_file_path(self, ep_index: int) -> Path:
        """Return the path of the rows of an episode, from the root on."""
        return Path(self._dataset.data_path(self._at(ep_index)))

    def get_video_file_path(self, ep_index: int, vid_key: str) -> Path:
        """Return the path of the video of an episode, from the root on."""
        return Path(self._dataset.video_path(vid_key, self._at(ep_index)))

    def _at(self, episode: int) -> int:
        found = np.flatnonzero(self._dataset.episodes.index == episode)
        if not len(found):
            raise IndexError(f"{self._dataset.name}: there is no episode {episode}")
        return int(found[0])


def _arrays(stats: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {key: {name: np.atleast_1d(np.array(value)) for name, value in own.items()} for key, own in stats.items()}
