"""The robot job: what is read, as every loader gets it."""

from typing import NamedTuple

from robot_data import CAMERAS, DATASETS, FPS

BATCH = 32
WINDOW = 8


class Job(NamedTuple):
    """A dataset, and what is read of it.

    Attributes:
        dataset: its folder.
        windows: whether a sample has the last 8 frames of each camera, instead of one.
    """

    dataset: str
    windows: bool

    @property
    def deltas(self) -> dict[str, list[float]]:
        seconds = [frame / FPS for frame in range(1 - WINDOW, 1)]
        return dict.fromkeys(CAMERAS, seconds) if self.windows else {}

    @classmethod
    def named(cls, name: str) -> "Job":
        dataset, _, kind = name.partition("/")
        return cls(dataset, kind == "windows")


JOBS = tuple(f"{dataset}/{kind}" for dataset in DATASETS for kind in ("single", "windows"))
