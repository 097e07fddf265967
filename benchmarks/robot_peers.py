"""The robot job by other loaders, each as its own documentation recommends. Runs in their environment."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.datasets.streaming_dataset import StreamingLeRobotDataset
from lerobot_lancedb import LanceDBDataset, lance_mp_context
from robot_jobs import BATCH, Job
from torch.utils.data import DataLoader

Batches = Iterator[dict[str, Any]]


def forever(dataset: Any, workers: int, **arguments: Any) -> Batches:
    loader = DataLoader(dataset, BATCH, num_workers=workers, persistent_workers=workers > 0, **arguments)
    while True:
        yield from loader


def map_style(folder: Path, job: Job, workers: int) -> Batches:
    root = folder / job.dataset
    dataset = LeRobotDataset("bench/robot", root=root, delta_timestamps=job.deltas or None, return_uint8=True)
    return forever(dataset, workers, shuffle=True)


def streaming(folder: Path, job: Job, workers: int) -> Batches:
    root = folder / job.dataset
    dataset = StreamingLeRobotDataset("bench/robot", root=root, delta_timestamps=job.deltas or None, return_uint8=True)
    return forever(dataset, workers)


def lance(folder: Path, job: Job, workers: int) -> Batches:
    root = folder / f"{job.dataset}-lance"
    dataset = LanceDBDataset(root=root, delta_timestamps=job.deltas or None, return_uint8=True)
    context = lance_mp_context() if workers else None
    return forever(dataset, workers, shuffle=True, multiprocessing_context=context)


LOADERS = {"map": map_style, "streaming": streaming, "lance": lance}
