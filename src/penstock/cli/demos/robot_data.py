"""A small robot dataset, generated for ``penstock demo robot``: an arm with two joints that reaches for a block.

Two cameras see it: one from above, and one at its hand.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FPS = 10
PIXELS = 96  # height and width of a camera
CAMERAS = ("observation.images.top", "observation.images.hand")
_LINKS = (0.52, 0.42)  # lengths of the arm's two parts, where the table reaches from -1 to 1
_ZOOM = 0.35  # half of what the hand's camera sees, in the same unit
_BLOCKS = {"red": (214, 69, 56), "green": (66, 158, 87), "blue": (58, 110, 196)}
_TABLE = (236, 230, 218)
_ARM = (70, 74, 84)
_HAND = (240, 176, 48)

Pixels = NDArray[np.uint8]
Points = NDArray[np.float64]


def make_robot_data(folder: Path, episodes: int = 36, seed: int = 0) -> Iterator[int]:
    """Write a LeRobotDataset v3.0.

    Args:
        folder: Output folder.
        episodes: Number of episodes, a third of them per video file.
        seed: Seed of the movements.

    Yields:
        Each episode once its frames are drawn. The files are written after the last one.
    """
    from penstock.curate.robot.writer import Episode, Layout, write_dataset  # with PyAV, which other demos do not need

    made = []
    for number in range(episodes):
        random = np.random.default_rng([seed, number])
        color = list(_BLOCKS)[number % len(_BLOCKS)]
        made.append(Episode(f"reach for the {color} block", _reach(random, color)))
        yield number
    layout = Layout(episodes_per_data_file=episodes, episodes_per_video_file=-(-episodes // 3))
    write_dataset(folder, made, fps=FPS, layout=layout)


def _reach(random: np.random.Generator, color: str) -> dict[str, NDArray[np.generic]]:
    """Return the values of an episode: the arm turns from one pair of angles to another, slowly at both ends."""
    length = int(random.integers(30, 61))
    start = random.uniform(-2.6, 2.6, 2)
    goal = random.uniform(-2.6, 2.6, 2)
    way = (1 - np.cos(np.linspace(0, np.pi, length))) / 2
    angles = start + way[:, None] * (goal - start)
    block = _joints(goal)[1]
    frames = [_draw(each, block, color) for each in angles]
    values: dict[str, NDArray[np.generic]] = {
        "observation.state": angles.astype(np.float32),
        "action": np.concatenate([angles[1:], angles[-1:]]).astype(np.float32),
    }
    return values | {camera: np.stack(own) for camera, own in zip(CAMERAS, zip(*frames, strict=True), strict=True)}


def _joints(angles: Points) -> tuple[Points, Points]:
    """Return where the elbow and the hand are."""
    elbow = _LINKS[0] * np.array([np.cos(angles[0]), np.sin(angles[0])])
    both = angles.sum()
    return elbow, elbow + _LINKS[1] * np.array([np.cos(both), np.sin(both)])


def _draw(angles: Points, block: Points, color: str) -> tuple[Pixels, Pixels]:
    """Return what each camera sees."""
    elbow, hand = _joints(angles)
    return _view(np.zeros(2), 1.0, elbow, hand, block, color), _view(hand, _ZOOM, elbow, hand, block, color)


def _view(center: Points, reach: float, elbow: Points, hand: Points, block: Points, color: str) -> Pixels:
    line = np.linspace(-reach, reach, PIXELS)
    places = center + np.stack(np.meshgrid(line, -line), axis=-1)
    pixels = np.empty((PIXELS, PIXELS, 3), np.uint8)
    pixels[:] = _TABLE
    pixels[np.abs(places - block).max(axis=-1) < 0.11] = _BLOCKS[color]
    pixels[_distance(places, np.zeros(2), elbow) < 0.06] = _ARM
    pixels[_distance(places, elbow, hand) < 0.045] = _ARM
    pixels[np.linalg.norm(places - hand, axis=-1) < 0.07] = _HAND
    return pixels


def _distance(places: Points, start: Points, end: Points) -> Points:
    """Return how far places are from a line between two points."""
    along = ((places - start) @ (end - start) / ((end - start) ** 2).sum()).clip(0, 1)
    gap: Points = np.linalg.norm(places - start - along[..., None] * (end - start), axis=-1)
    return gap
