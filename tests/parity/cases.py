"""The datasets that are written for the comparison, and the ways in which each is read."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock.curate.robot.writer import Episode, Layout, write_dataset
from penstock.media.video.encoding import Encoding
from tests.videos import FPS, clip_of

LENGTHS = (23, 9, 31, 17, 12, 26, 8)
TOP = "observation.images.top"
WRIST = "observation.images.wrist"
SIZES = {TOP: (64, 96), WRIST: (48, 64)}  # height, width

Read = dict[str, Any]  # of one dataset: arguments of LeRobot's class

DATASETS: Mapping[str, tuple[Sequence[str], Layout]] = {
    "no cameras": ((), Layout(episodes_per_data_file=3)),
    "one camera, h264, groups of 2, one file": ((TOP,), Layout()),
    "two cameras, h264, groups of 2, many files": (
        (TOP, WRIST),
        Layout(episodes_per_data_file=3, episodes_per_video_file=2, rows_per_group=10),
    ),
    "two cameras, h264, groups of 250, 3 B-frames": (
        (TOP, WRIST),
        Layout(encoding=Encoding("h264", group=250, b_frames=3, header_in_front=False)),
    ),
    "one camera, h264, groups of 12, 2 B-frames, many files": (
        (TOP,),
        Layout(episodes_per_video_file=3, encoding=Encoding("h264", group=12, b_frames=2)),
    ),
    "two cameras, AV1, groups of 2, many files": (
        (TOP, WRIST),
        Layout(episodes_per_data_file=2, episodes_per_video_file=3, encoding=Encoding("av1", group=2)),
    ),
    "one camera, AV1, groups of 250, one file": ((TOP,), Layout(encoding=Encoding("av1", group=250))),
    "a camera as video, one as images": ((TOP, WRIST), Layout(images=(WRIST,))),
}


def write_all(folder: Path) -> Iterator[Path]:
    """Write all datasets. Yields the folder of each."""
    for name, (cameras, layout) in DATASETS.items():
        path = folder / name
        if not (path / "meta" / "info.json").exists():
            write_dataset(path, _episodes(cameras), fps=FPS, layout=layout)
        yield path


def _episodes(cameras: Sequence[str]) -> list[Episode]:
    random = np.random.default_rng(0)
    episodes = []
    for number, length in enumerate(LENGTHS):
        values: dict[str, Any] = {
            "observation.state": random.normal(size=(length, 4)).astype(np.float32),
            "action": random.normal(size=(length, 3)).astype(np.float32),
            "next.reward": random.normal(size=length).astype(np.float32),
            "next.done": np.arange(length) == length - 1,
        }
        for place, camera in enumerate(cameras):
            first = 1000 * number + 100_000 * place
            values[camera] = clip_of(range(first, first + length), *SIZES[camera])
        episodes.append(Episode(f"task {number % 3}", values))
    return episodes


def reads(cameras: Sequence[str], fps: int, episodes: int) -> dict[str, Read]:
    """Return the ways in which a dataset is read.

    Args:
        cameras: of the dataset.
        fps: of the dataset.
        episodes: their number.
    """
    # The longest windows reach over both ends of short episodes at once.
    wide = {"action": _seconds(range(-12, 13), fps), "observation.state": _seconds((-1, 0), fps)}
    wide |= {camera: _seconds((-10, -2, -1, 0, 1, 2, 10), fps) for camera in cameras[:1]}
    wide |= {camera: _seconds((0, 1), fps) for camera in cameras[1:]}
    single = {"action": _seconds((1,), fps)} | {camera: _seconds((-1,), fps) for camera in cameras}
    some = sorted({1, episodes // 2, episodes - 1})
    return {
        "frames": {},
        "windows": {"delta_timestamps": wide},
        "windows of one frame": {"delta_timestamps": single},
        "some episodes": {"episodes": some},
        "some episodes, windows": {"episodes": some, "delta_timestamps": wide},
    }


def _seconds(frames: Sequence[int], fps: int) -> list[float]:
    return [frame / fps for frame in frames]
