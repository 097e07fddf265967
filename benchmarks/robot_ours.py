"""The robot job by Penstock in each of its modes. All that it needs is imported with this module."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import PIL.Image
import pyarrow.parquet
import torch
from robot_jobs import BATCH, Job
from robot_limit import limit
from torch.utils.data import DataLoader

import penstock
import penstock.feed
import penstock.loader
import penstock.observe.ledger
import penstock.recipes.robot
from penstock.compat.lerobot import StreamingLeRobotDataset

Batches = Iterator[dict[str, Any]]
_IMPORTED = (av, np, PIL.Image, pyarrow.parquet, torch)


def open_feed(folder: Path, job: Job) -> Any:
    return penstock.robot(store=str(folder / job.dataset), batch_size=BATCH, delta_timestamps=job.deltas)


def threads(folder: Path, job: Job, workers: int) -> Batches:
    return open_feed(folder, job).loader(threads=workers)


def processes(folder: Path, job: Job, workers: int) -> Batches:
    return open_feed(folder, job).loader(workers=workers)


def dataloader(folder: Path, job: Job, workers: int) -> Batches:
    """LeRobot's class as Penstock has it, in a plain ``DataLoader``."""
    root = folder / job.dataset
    dataset = StreamingLeRobotDataset(
        "bench/robot", root=root, delta_timestamps=job.deltas, return_uint8=True, batch_size=BATCH
    )
    loader = DataLoader(dataset, batch_size=BATCH, num_workers=workers, persistent_workers=workers > 0)
    while True:
        yield from loader


LOADERS = {"threads": threads, "processes": processes, "dataloader": dataloader, "limit": limit}
