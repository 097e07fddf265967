"""A pytest plugin: LeRobot's own tests get our class in place of theirs. Runs in lerobot's own environment.

Theirs has the number of a frame as a Python number, ours as a tensor, as ``LeRobotDataset`` has it: where a test asks
``LeRobotDataset`` for that frame, the tensor becomes a number. Nothing else differs.
"""

from typing import Any

from lerobot.datasets import streaming_dataset
from lerobot.datasets.lerobot_dataset import LeRobotDataset

from penstock.compat.lerobot import StreamingLeRobotDataset

_getitem = LeRobotDataset.__getitem__


def _numbered(self: LeRobotDataset, index: Any) -> Any:
    return _getitem(self, int(index))


LeRobotDataset.__getitem__ = _numbered
streaming_dataset.StreamingLeRobotDataset = StreamingLeRobotDataset
