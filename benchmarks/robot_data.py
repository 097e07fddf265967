"""The datasets of the robot job: two cameras, groups of two frames, one file per camera, as LeRobot writes them.

    python benchmarks/robot_data.py [bench-data/robot]

A frame shows a textured table that moves below the camera, and the noise of a sensor. LeRobot's streaming class
can't read datasets of several video files: therefore one.
"""

import argparse
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

os.environ["SVT_LOG"] = "1"  # the AV1 encoder prints its settings otherwise

FPS = 30
CAMERAS = ("observation.images.top", "observation.images.wrist")
CODECS = ("h264", "av1")


class Size(NamedTuple):
    """Of the frames, and how many there are."""

    height: int
    width: int
    episodes: int


SIZES = {"96": Size(96, 96, 100), "480": Size(480, 480, 20), "640x480": Size(480, 640, 20)}
FRAMES_PER_EPISODE = 60
DATASETS = tuple(f"{size}-{codec}" for size in SIZES for codec in CODECS)


def frames(height: int, width: int, count: int, seed: int) -> NDArray[np.uint8]:
    """Return a clip: a texture that moves by a few pixels per frame, and noise."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (height // 8 + count, width // 8 + count, 3), np.uint8)
    texture = np.kron(coarse, np.ones((8, 8, 1), np.uint8))
    smooth = _blurred(texture.astype(np.float32))
    noise = random.normal(0, 2, (height, width, 3)).astype(np.float32)
    step = random.integers(1, 4, 2)
    out = np.empty((count, height, width, 3), np.uint8)
    for number in range(count):
        top, left = step * number
        seen = smooth[top : top + height, left : left + width] + np.roll(noise, 7 * number, (0, 1))
        out[number] = seen.clip(0, 255)
    return out


def _blurred(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean over 5 × 5 pixels."""
    for axis in (0, 1):
        pixels = sum(np.roll(pixels, shift, axis) for shift in range(-2, 3)) / np.float32(5)
    return pixels


def write(folder: Path, name: str) -> None:
    from penstock.curate.robot.writer import Episode, Layout, write_dataset
    from penstock.media.video.encoding import Encoding

    size, _, codec = name.rpartition("-")
    height, width, count = SIZES[size]
    random = np.random.default_rng(0)
    episodes = []
    for number in range(count):
        clips = {
            camera: frames(height, width, FRAMES_PER_EPISODE, 2 * number + place)
            for place, camera in enumerate(CAMERAS)
        }
        values = {
            "observation.state": random.normal(size=(FRAMES_PER_EPISODE, 7)).astype(np.float32),
            "action": random.normal(size=(FRAMES_PER_EPISODE, 7)).astype(np.float32),
        }
        episodes.append(Episode(f"task {number % 5}", {**values, **clips}))
    assert codec == "h264" or codec == "av1"
    write_dataset(folder / name, episodes, fps=FPS, layout=Layout(encoding=Encoding(codec, crf=30)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("bench-data/robot"))
    folder = parser.parse_args().folder
    for name in DATASETS:
        if not (folder / name / "meta" / "info.json").exists():
            write(folder, name)
        size = sum(path.stat().st_size for path in (folder / name).rglob("*.mp4"))
        print(f"{name}: {size / 1e6:.1f} MB of video", flush=True)


if __name__ == "__main__":
    main()
