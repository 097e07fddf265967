"""Writes a small LeRobotDataset v3.0, for tests and demos. The lerobot package can open it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from penstock.media.image.file import png_bytes
from penstock.media.video.encoding import Encoding, write_video
from penstock.readers.lerobot.info import INDEX_COLUMNS, VERSION

_DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
_VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
_QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
_FILES_PER_CHUNK = 1000
# pandas finds the index of meta/tasks.parquet by the description of its columns.
_PANDAS_COLUMNS = [
    {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": dtype, "metadata": None}
    for name, kind, dtype in (("task_index", "int64", "int64"), ("task", "unicode", "object"))
]
_SAMPLED_FRAMES = 100  # frames per camera used for statistics: all pixels would take gigabytes

FeatureValues = NDArray[Any] | Sequence[str]
Values = Mapping[str, FeatureValues]


@dataclass(frozen=True)
class Episode:
    """One episode: its task, and one value per frame for each feature; cameras are uint8 of shape (T, H, W, C)."""

    task: str
    values: Values

    @property
    def length(self) -> int:
        return len(next(iter(self.values.values())))


@dataclass(frozen=True)
class Layout:
    """Layout of the files of a dataset.

    Attributes:
        episodes_per_data_file: Episodes in a file of rows.
        episodes_per_video_file: Episodes in a video.
        rows_per_group: Rows per row group; None for one row group per episode.
        images: Cameras whose frames are embedded in the rows as PNG images instead of videos.
        encoding: Encoding of the videos.
    """

    episodes_per_data_file: int = 1_000_000
    episodes_per_video_file: int = 1_000_000
    rows_per_group: int | None = None
    images: tuple[str, ...] = ()
    encoding: Encoding = field(default_factory=Encoding)


def write_dataset(folder: Path, episodes: Sequence[Episode], *, fps: int, layout: Layout | None = None) -> None:
    """Write a dataset.

    Args:
        folder: Folder of the dataset; created if it does not exist.
        episodes: Episodes in order, all with the same features.
        fps: Frames per second.
        layout: Layout of the files.
    """
    _DatasetWriter(folder, episodes, fps, layout or Layout()).write()


class _DatasetWriter:
    def __init__(self, folder: Path, episodes: Sequence[Episode], fps: int, layout: Layout) -> None:
        self._folder = folder
        self._episodes = episodes
        self._fps = fps
        self._layout = layout
        self._tasks = list(dict.fromkeys(episode.task for episode in episodes))
        first = episodes[0].values
        self._cameras = [key for key, value in first.items() if _is_camera(value)]
        self._videos = [key for key in self._cameras if key not in layout.images]
        lengths = [episode.length for episode in episodes]
        self._starts = (np.cumsum(lengths) - lengths).tolist()

    def write(self) -> None:
        rows = [self._rows(number) for number in range(len(self._episodes))]
        self._write_rows(rows)
        begins = {key: self._write_videos(key) for key in self._videos}
        self._write_meta(begins)

    def _path(self, template: str, number: int, **names: str) -> Path:
        chunk, file = divmod(number, _FILES_PER_CHUNK)
        path = self._folder / template.format(chunk_index=chunk, file_index=file, **names)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _rows(self, number: int) -> pa.Table:
        episode = self._episodes[number]
        length = episode.length
        columns = {key: _column(value) for key, value in episode.values.items() if key not in self._cameras}
        for key in self._layout.images:
            columns[key] = _image_column(np.asarray(episode.values[key]))
        frames = np.arange(length)
        columns["timestamp"] = pa.array((frames / self._fps).astype(np.float32))
        columns["frame_index"] = pa.array(frames)
        columns["episode_index"] = pa.array(np.full(length, number))
        columns["index"] = pa.array(self._starts[number] + frames)
        columns["task_index"] = pa.array(np.full(length, self._tasks.index(episode.task)))
        return pa.table(columns)

    def _write_rows(self, rows: Sequence[pa.Table]) -> None:
        step = self._layout.episodes_per_data_file
        for file, begin in enumerate(range(0, len(rows), step)):
            own = rows[begin : begin + step]
            with pq.ParquetWriter(self._path(_DATA, file), own[0].schema) as writer:
                if self._layout.rows_per_group is None:
                    for table in own:
                        writer.write_table(table)
                else:
                    writer.write_table(pa.concat_tables(own), row_group_size=self._layout.rows_per_group)

    def _write_videos(self, key: str) -> list[tuple[int, float]]:
        """Write the videos of a camera. Returns file and first second of each episode."""
        step = self._layout.episodes_per_video_file
        begins = []
        for file, begin in enumerate(range(0, len(self._episodes), step)):
            own = [np.asarray(episode.values[key]) for episode in self._episodes[begin : begin + step]]
            write_video(self._path(_VIDEO, file, video_key=key), own, self._fps, self._layout.encoding)
            frames = np.cumsum([0, *map(len, own[:-1])])
            begins += [(file, seconds) for seconds in (frames / self._fps).tolist()]
        return begins

    def _write_meta(self, begins: Mapping[str, list[tuple[int, float]]]) -> None:
        meta = self._folder / "meta"
        meta.mkdir(parents=True, exist_ok=True)
        rows = [self._episode_row(number, begins) for number in range(len(self._episodes))]
        pq.write_table(pa.Table.from_pylist(rows), self._path("meta/episodes/" + _DATA.partition("/")[2], 0))
        tasks = pa.table({"task_index": list(range(len(self._tasks))), "task": self._tasks})
        about = {"index_columns": ["task"], "column_indexes": [], "columns": _PANDAS_COLUMNS, "pandas_version": "2.0.0"}
        pq.write_table(tasks.replace_schema_metadata({"pandas": json.dumps(about)}), meta / "tasks.parquet")
        stats = {
            key: _statistics([episode.values[key] for episode in self._episodes], key in self._cameras)
            for key, value in self._episodes[0].values.items()
            if not _is_text(value)
        }
        (meta / "stats.json").write_text(json.dumps(stats))
        (meta / "info.json").write_text(json.dumps(self._info(), indent=1))

    def _episode_row(self, number: int, begins: Mapping[str, list[tuple[int, float]]]) -> dict[str, Any]:
        episode = self._episodes[number]
        data_chunk, data_file = divmod(number // self._layout.episodes_per_data_file, _FILES_PER_CHUNK)
        row: dict[str, Any] = {
            "episode_index": number,
            "tasks": [episode.task],
            "length": episode.length,
            "data/chunk_index": data_chunk,
            "data/file_index": data_file,
            "dataset_from_index": self._starts[number],
            "dataset_to_index": self._starts[number] + episode.length,
        }
        for key, own in begins.items():
            file, start = own[number]
            chunk, file = divmod(file, _FILES_PER_CHUNK)
            row[f"videos/{key}/chunk_index"] = chunk
            row[f"videos/{key}/file_index"] = file
            row[f"videos/{key}/from_timestamp"] = start
            row[f"videos/{key}/to_timestamp"] = start + episode.length / self._fps
        row["meta/episodes/chunk_index"] = 0
        row["meta/episodes/file_index"] = 0
        return row

    def _info(self) -> dict[str, Any]:
        features = {key: self._feature(key, value) for key, value in self._episodes[0].values.items()}
        for key in INDEX_COLUMNS:
            features[key] = {"dtype": "float32" if key == "timestamp" else "int64", "shape": [1], "names": None}
        return {
            "codebase_version": VERSION,
            "robot_type": None,
            "total_episodes": len(self._episodes),
            "total_frames": sum(episode.length for episode in self._episodes),
            "total_tasks": len(self._tasks),
            "chunks_size": _FILES_PER_CHUNK,
            "data_files_size_in_mb": 100,
            "video_files_size_in_mb": 200,
            "fps": self._fps,
            "splits": {"train": f"0:{len(self._episodes)}"},
            "data_path": _DATA,
            "video_path": _VIDEO if self._videos else None,
            "features": features,
        }

    def _feature(self, key: str, value: FeatureValues) -> dict[str, Any]:
        if _is_text(value):
            return {"dtype": "string", "shape": [1], "names": None}
        array = np.asarray(value)
        if key not in self._cameras:
            return {"dtype": str(array.dtype), "shape": list(array.shape[1:]) or [1], "names": None}
        names = ["height", "width", "channels"]
        shape = list(array.shape[1:])
        if key in self._layout.images:
            return {"dtype": "image", "shape": shape, "names": names}
        height, width, channels = shape
        info = {
            "video.height": height,
            "video.width": width,
            "video.codec": self._layout.encoding.codec,
            "video.pix_fmt": "yuv420p",
            "video.is_depth_map": False,
            "video.fps": self._fps,
            "video.channels": channels,
            "has_audio": False,
        }
        return {"dtype": "video", "shape": shape, "names": names, "info": info}


def _is_text(value: FeatureValues) -> bool:
    return not isinstance(value, np.ndarray)


def _is_camera(value: FeatureValues) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 4


def _column(value: FeatureValues) -> pa.Array:
    if not isinstance(value, np.ndarray):
        return pa.array(list(value))
    column = pa.array(value.reshape(-1))
    for size in reversed(value.shape[1:]):
        column = pa.FixedSizeListArray.from_arrays(column, size)
    return column


def _image_column(frames: NDArray[np.uint8]) -> pa.Array:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.array([{"bytes": png_bytes(frame), "path": None} for frame in frames], kind)


def _statistics(values: Sequence[FeatureValues], camera: bool) -> dict[str, Any]:
    """Return the statistics of a feature as lerobot has them: for a camera per channel, from 0 to 1, of some frames."""
    count = sum(map(len, values))
    step = max(1, count // _SAMPLED_FRAMES) if camera else 1
    array = np.concatenate([np.asarray(each)[::step] for each in values]).astype(np.float64)
    if camera:
        array = array.reshape(-1, array.shape[-1]) / 255
    elif array.ndim == 1:
        array = array[:, None]
    found = {"min": array.min(0), "max": array.max(0), "mean": array.mean(0), "std": array.std(0)}
    found |= {name: np.quantile(array, at, axis=0) for name, at in _QUANTILES.items()}
    shape = (-1, 1, 1) if camera else array.shape[1:]
    return {**{name: value.reshape(shape).tolist() for name, value in found.items()}, "count": [count]}
