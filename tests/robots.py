"""Small robot datasets. Every frame of a camera shows a number of its own, so that tests can identify it."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from penstock.curate.robot.writer import Episode, Layout, write_dataset
from tests.videos import clip_of, number_of

FPS = 30
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
ROWS = "data/chunk-000/file-000.parquet"


def shown_number(camera: int, episode: int, frame: int) -> int:
    """Return the number that a frame shows."""
    return (camera * 1000 + episode) * 1000 + frame


def episode(
    number: int, length: int, cameras: Sequence[str] = (), *, task: str = "", size: tuple[int, int] = (64, 64)
) -> Episode:
    """Return an episode. State and action hold the numbers of episode and frame."""
    frames = np.arange(length)
    values: dict[str, Any] = {
        key: clip_of([shown_number(camera, number, frame) for frame in range(length)], *size)
        for camera, key in enumerate(cameras)
    }
    values["observation.state"] = np.stack([np.full(length, number), frames], axis=1).astype(np.float32)
    values["action"] = np.stack([frames, -frames, frames**2], axis=1).astype(np.float32)
    return Episode(task or f"task {number % 2}", values)


def write_robot(
    folder: Path,
    lengths: Sequence[int],
    cameras: Sequence[str] = (),
    *,
    fps: int = FPS,
    layout: Layout | None = None,
    size: tuple[int, int] = (64, 64),
) -> Path:
    """Write a dataset with episodes of some lengths. Returns its folder."""
    episodes = [episode(number, length, cameras, size=size) for number, length in enumerate(lengths)]
    write_dataset(folder, episodes, fps=fps, layout=layout)
    return folder


def shown(frame: Any) -> int:
    """Return the number that a frame of a batch [C, H, W] shows."""
    pixels: NDArray[Any] = np.moveaxis(np.asarray(frame), -3, -1)
    return number_of(pixels)


def edit_info(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change ``meta/info.json``."""
    path = folder / "meta" / "info.json"
    info = json.loads(path.read_text())
    change(info)
    path.write_text(json.dumps(info))


def edit_table(folder: Path, path: str, changes: Mapping[str, Mapping[int, Any]]) -> None:
    """Change single values of a Parquet file: by column and row."""
    table = pq.read_table(folder / path)
    for name, values in changes.items():
        column = table.column(name)
        rows = column.to_pylist()
        for row, value in values.items():
            rows[row] = value
        table = table.set_column(table.column_names.index(name), name, pa.array(rows, column.type))
    pq.write_table(table, folder / path)
