"""Frames that are read once: a frame that two episodes read is damaged if its own one says so."""

from pathlib import Path

import numpy as np
import pytest

from penstock.readers.lerobot.framechecks import FrameChecks
from penstock.readers.lerobot.videos import Videos
from penstock.readers.mp4.checksums import DAMAGED
from penstock.readers.mp4.clip import Clip
from penstock.readers.ranges import Ranges
from penstock.store.local import LocalStore
from tests.readers.lerobot.datasets import dataset_of
from tests.robots import write_robot
from tests.videos import write_moving_video

TOP = "videos/top/chunk-000/file-000.mp4"
GROUP = 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset whose second episode begins with a key frame, behind which lie the last frames of the first one."""
    folder = write_robot(tmp_path / "robot", [GROUP, GROUP], ["top"])
    write_moving_video(folder / TOP, 2 * GROUP, GROUP, 3, open_groups=True)
    return folder


def videos_of(folder: Path, metadata: Path) -> Videos:
    store = LocalStore(folder)
    return Videos(dataset_of(folder), Ranges(lambda: store), metadata, 4)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_marks_of_damaged_frames_do_not_depend_on_the_order_of_episodes(
    folder: Path, tmp_path: Path, order: tuple[int, int]
) -> None:
    clip = videos_of(folder, tmp_path).clip("top", 1)
    leading = clip.first + int(np.flatnonzero(clip.starts < 0)[0])

    def damaged_frames(clip: Clip, _: Ranges) -> list[int]:
        here = leading - clip.first
        return [here] if 0 <= here < len(clip.starts) and clip.starts[here] >= 0 else []

    for episodes in (order, (1,)):  # all of them, and later one of them alone
        store = LocalStore(folder)
        videos = videos_of(folder, tmp_path / "metadata")
        checks = FrameChecks(videos, Ranges(lambda store=store: store), damaged_frames)
        reasons = {at: checks.check("top", at, len(episodes)) for at in episodes}
        assert not reasons[1] and reasons.get(0, "damaged frames: 1").startswith("damaged frames: 1")
        kept = videos_of(folder, tmp_path / "metadata").video("top", 0).checksums()
        assert np.flatnonzero(kept.frames == DAMAGED).tolist() == [leading]
