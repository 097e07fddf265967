"""Every file looked at beforehand: all faults, from headers and a few columns."""

from pathlib import Path

import numpy as np
import pytest

from penstock.curate.robot.writer import Layout
from penstock.media.video.codecs import CODECS
from penstock.media.video.encoding import Encoding, write_video
from tests.readers.lerobot.datasets import reader_of
from tests.robots import FPS, ROWS, edit_table, episode, write_robot

LENGTHS = [6, 7, 5]
TOP = "videos/top/chunk-000/file-000.mp4"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_robot(tmp_path / "robot", LENGTHS, ["top"], layout=Layout(episodes_per_video_file=2))


def faults(folder: Path, shelf: Path) -> list[tuple[str, str]]:
    """Return kind and words of all faults."""
    progress: list[tuple[int, int]] = []
    problems = reader_of(folder, shelf).check(CODECS, lambda done, files: progress.append((done, files)))
    assert progress == [(1, 3), (2, 3), (3, 3)], "a file of rows, and two videos"
    return [(problem.kind, str(problem)) for problem in problems.first]


def rewrite(path: Path, keep: list[list[int]], fps: int) -> None:
    """Write a video anew, with some frames of its episodes and at a frame rate."""
    clips = [
        np.asarray(episode(number, LENGTHS[number], ["top"]).values["top"])[frames]
        for number, frames in enumerate(keep)
    ]
    write_video(path, clips, fps, Encoding())


def test_a_good_dataset_has_no_faults(folder: Path, tmp_path: Path) -> None:
    assert faults(folder, tmp_path / "shelf") == []


def test_a_video_at_another_rate_has_gaps_against_that_of_the_dataset(folder: Path, tmp_path: Path) -> None:
    rewrite(folder / TOP, [list(range(6)), list(range(7))], FPS - 1)
    found = faults(folder, tmp_path / "shelf")
    assert [kind for kind, _ in found] == ["gap", "gap"]
    assert (
        f"{TOP}, episode 0: at 30 fps frame 1 is shown at 0.0333 s, and the nearest one of the video is 0.0011 s"
        in (found[0][1])
    )


def test_frames_that_a_video_lacks_are_counted_per_episode(folder: Path, tmp_path: Path) -> None:
    rewrite(folder / TOP, [list(range(6)), list(range(4))], FPS)
    assert faults(folder, tmp_path / "shelf") == [
        ("missing frames", f"{TOP}, episode 1: the video has 4 of its 7 frames")
    ]


def test_a_video_that_lacks_frames_of_its_first_episode_has_none_of_the_second_in_their_place(
    folder: Path, tmp_path: Path
) -> None:
    rewrite(folder / TOP, [list(range(4)), list(range(7))], FPS)
    # What follows moves forward in the file, so the faults that can be seen are those at its end.
    assert faults(folder, tmp_path / "shelf") == [
        ("missing frames", f"{TOP}, episode 1: the video has 5 of its 7 frames")
    ]


def test_times_of_rows_that_jump_are_a_gap(folder: Path, tmp_path: Path) -> None:
    later = {row: (row - 6 + 2) / FPS for row in range(9, 13)}  # of episode 1, from its frame 3 on
    edit_table(folder, ROWS, {"timestamp": later})
    assert faults(folder, tmp_path / "shelf") == [
        ("gap", f"{ROWS}, episode 1: frames 2 and 3 are 0.1000 s apart, and at 30 fps it is 0.0333 s")
    ]


def test_times_of_rows_that_all_are_late_are_a_fault_where_videos_are_found_by_them(
    folder: Path, tmp_path: Path
) -> None:
    edit_table(folder, ROWS, {"timestamp": {row: (row - 6 + 1) / FPS for row in range(6, 13)}})
    assert faults(folder, tmp_path / "shelf") == [
        ("time", f"{ROWS}, episode 1: frame 0 has the time 0.0333 s, and at 30 fps it is 0.0000 s")
    ]


def test_all_faults_are_kept_however_many(tmp_path: Path) -> None:
    lengths = [2] * 60
    folder = write_robot(tmp_path / "robot", lengths)
    edit_table(folder, ROWS, {"timestamp": dict.fromkeys(range(1, 120, 2), 0.5)})
    problems = reader_of(folder, tmp_path / "shelf").check(CODECS, lambda done, files: None)
    assert len(problems.first) == 60 and problems.counts == {"gap": 60}
