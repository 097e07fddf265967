"""Episodes' parts of videos: which frames they have, and files that can't be read."""

from pathlib import Path

import pytest

from penstock.curate.robot.writer import Layout
from penstock.readers.errors import ContentError
from penstock.readers.lerobot.videos import Videos
from penstock.readers.mp4.clip import Clip
from penstock.readers.ranges import Ranges
from penstock.store.local import LocalStore
from tests.readers.lerobot.datasets import dataset_of
from tests.robots import FPS, edit_info, write_robot

LENGTHS = [5, 3, 4]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_robot(tmp_path / "robot", LENGTHS, ["top"], layout=Layout(episodes_per_video_file=2))


def videos_of(folder: Path, metadata: Path) -> Videos:
    store = LocalStore(folder)
    return Videos(dataset_of(folder), Ranges(lambda: store), metadata, 4)


def test_clips_have_the_frames_of_their_episode(folder: Path, tmp_path: Path) -> None:
    videos = videos_of(folder, tmp_path)
    for at, first in enumerate((0, 5, 0)):
        clip = videos.clip("top", at)
        assert clip.seconds.tolist() == pytest.approx([(first + frame) / FPS for frame in range(LENGTHS[at])])
        assert videos.clip("top", at) is clip and videos.clip_if_here("top", at) is clip


def test_a_local_header_is_here_without_waiting(folder: Path, tmp_path: Path) -> None:
    found = videos_of(folder, tmp_path).clip_if_here("top", 2)
    assert isinstance(found, Clip) and len(found.shown) == 4


@pytest.mark.parametrize("content", [b"", b"\0" * 7, b"hello" * 99])
def test_a_bad_file_is_none_for_those_that_must_not_wait_and_an_error_for_the_rest(
    folder: Path, tmp_path: Path, content: bytes
) -> None:
    (folder / "videos/top/chunk-000/file-000.mp4").write_bytes(content)
    videos = videos_of(folder, tmp_path)
    assert videos.clip_if_here("top", 0) is None
    with pytest.raises(ContentError, match=r"videos/top/chunk-000/file-000\.mp4: "):
        videos.clip("top", 0)
    assert isinstance(videos.clip("top", 2), Clip)


def test_a_missing_file_is_none_for_those_that_must_not_wait(folder: Path, tmp_path: Path) -> None:
    (folder / "videos/top/chunk-000/file-000.mp4").unlink()
    videos = videos_of(folder, tmp_path)
    assert videos.clip_if_here("top", 0) is None
    with pytest.raises(FileNotFoundError):
        videos.clip("top", 0)


def test_a_video_with_twice_the_rate_of_the_rows_serves_them(folder: Path, tmp_path: Path) -> None:
    edit_info(folder, lambda info: info.update(fps=FPS // 2))
    clip = videos_of(folder, tmp_path).clip("top", 0)
    assert len(clip.shown) == 8, "five frames of rows, of which the file has the first four"
