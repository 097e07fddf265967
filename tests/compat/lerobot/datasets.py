"""Small LeRobotDatasets, written once per session."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from penstock.curate.robot.writer import Episode, Layout, write_dataset
from tests.videos import clip_of

FPS = 10
LENGTHS = [5, 7, 6, 9, 4, 8, 5, 6]
FRAMES = sum(LENGTHS)
CAMERA = "observation.images.top"
STARTS = np.cumsum([0, *LENGTHS[:-1]]).tolist()


def values(number: int) -> dict[str, Any]:
    """What each frame of an episode holds: numbers that follow from its place in the dataset."""
    index = STARTS[number] + np.arange(LENGTHS[number])
    return {
        "observation.state": np.stack([index, index / 2, -index], axis=1).astype(np.float32),
        "action": np.stack([index, 10 * index], axis=1).astype(np.float64),
        "count": index.astype(np.int32),
        "done": index % 2 == 0,
        "note": [f"frame {place}" for place in index.tolist()],
    }


def write_plain(folder: Path) -> Path:
    """Write a dataset without cameras, in several files."""
    episodes = [Episode(f"task {number % 3}", values(number)) for number in range(len(LENGTHS))]
    write_dataset(folder, episodes, fps=FPS, layout=Layout(episodes_per_data_file=3))
    return folder


def write_filmed(folder: Path, *images: str) -> Path:
    """Write the same dataset with a camera, in several videos. Each frame shows its place in the dataset."""
    episodes = []
    for number, length in enumerate(LENGTHS):
        film = clip_of(range(STARTS[number], STARTS[number] + length), 32, 32)
        episodes.append(Episode(f"task {number % 3}", {**values(number), CAMERA: film}))
    layout = Layout(episodes_per_data_file=3, episodes_per_video_file=2, images=images)
    write_dataset(folder, episodes, fps=FPS, layout=layout)
    return folder


def indexes(loader: DataLoader[Any], most: int | None = None) -> list[list[int]]:
    """The places of the frames of each batch of one ``for``."""
    found = []
    for batch in loader:
        found.append(batch["index"].tolist())
        if len(found) == most:
            break
    return found


def epochs(loader: DataLoader[Any], count: int) -> list[list[list[int]]]:
    return [indexes(loader) for _ in range(count)]


def flat(batches: list[list[int]]) -> list[int]:
    return [index for batch in batches for index in batch]


def loader_of(dataset: Any, batch_size: int, workers: int, **options: Any) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=batch_size, num_workers=workers, **options)


def noisy(frames: torch.Tensor) -> torch.Tensor:
    """A random transform that draws from all generators that such transforms use."""
    import random

    return frames * torch.rand(()) + np.random.rand() + random.random()


Make = Callable[..., Any]
