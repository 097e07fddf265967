"""Items that LeRobot itself returned, against batches of the same frames. See tests/data/README.md."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock

ROBOT = Path(__file__).parents[1] / "data" / "robot"
NAMES = ("two_cameras_h264", "two_cameras_av1_many_files")
FPS = 30
WINDOWS = {
    "observation.images.top": [frame / FPS for frame in range(-2, 3)],
    "observation.state": [-1 / FPS, 0],
    "action": [frame / FPS for frame in range(16)],
}


def recorded(name: str, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each recorded frame of a kind, plain or window, and its values."""
    items = np.load(ROBOT / f"{name}_items.npz")
    numbers = {int(key.split("/")[1]) for key in items if key.startswith(f"{kind}/")}
    for number in sorted(numbers):
        start = f"{kind}/{number}/"
        yield number, {key.removeprefix(start): items[key] for key in items if key.startswith(start)}


def sample(feed: penstock.Feed, item: str) -> dict[str, Any]:
    """Return the sample of an item, from the batch that has it."""
    [(_, use)] = feed.where(item)
    batch = feed.batch(use.step)
    assert batch["ids"][use.slot] == item
    return {key: value[use.slot] for key, value in batch.items() if hasattr(value, "__getitem__") and len(value)}


def assert_equal(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    for key, value in expected.items():
        if key == "task":
            assert found[key] == str(value)
            continue
        own = found[key].numpy()
        if own.shape == (1, *value.shape):  # LeRobot leaves out the window of one frame of a video
            own = own[0]
        assert own.dtype == value.dtype, key
        np.testing.assert_array_equal(own, value, err_msg=key)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["plain", "window"])
def test_a_batch_has_what_lerobot_returned_for_the_same_frames(name: str, kind: str) -> None:
    windows = WINDOWS if kind == "window" else {}
    with closing(penstock.robot(store=str(ROBOT / name), batch_size=8, delta_timestamps=windows)) as feed:
        compared = 0
        for _, expected in recorded(name, kind):
            found = sample(feed, f"{int(expected['episode_index'])}:{int(expected['frame_index'])}")
            assert_equal(found, expected)
            compared += len(expected)
    assert compared == {"plain": 2 * 10, "window": 3 * 13}[kind]
