"""What LeRobot's map-style dataset returns, frame by frame, as ``.npz`` files. Runs in lerobot's own environment.

A job on stdin is a line of JSON: the dataset's folder, the arguments of ``LeRobotDataset``, the file to write. Knows
nothing of Penstock.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch

torch.set_num_threads(1)

from lerobot.datasets.lerobot_dataset import LeRobotDataset  # noqa: E402


def record(root: str, arguments: dict[str, Any], out: str) -> None:
    dataset = LeRobotDataset("parity/parity", root=Path(root), **arguments)
    cameras = {key for key in dataset.meta.camera_keys if key not in getattr(dataset.meta, "depth_keys", ())}
    found: dict[str, Any] = {}
    for number in range(len(dataset)):
        for key, value in dataset[number].items():
            found[f"{number}/{key}"] = _pixels(value) if key in cameras else np.asarray(value)
    np.savez(out, **found)


def _pixels(value: torch.Tensor) -> Any:
    """Return pixels as uint8, of which the file becomes smaller, once it is sure that nothing is lost by it."""
    if value.dtype == torch.uint8:
        return value.numpy()
    pixels = (value * 255).round().to(torch.uint8)
    assert torch.equal(pixels.to(torch.float32) / 255, value), "pixels are no multiples of 1/255"
    return pixels.numpy()


def main() -> None:
    for line in sys.stdin:
        record(*json.loads(line))
        print("done", flush=True)


if __name__ == "__main__":
    main()
