"""Every file looked at beforehand: all faults, from headers, a few columns and the frames of videos."""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from penstock.curate.robot.writer import Layout
from penstock.media.video.batch import damaged_frames
from penstock.media.video.codecs import CODECS
from penstock.media.video.decoders import Decoders
from penstock.media.video.encoding import Encoding, write_video
from penstock.readers.mp4.clip import Piece
from tests.readers.lerobot.datasets import reader_of
from tests.robots import FPS, ROWS, edit_info, edit_table, episode, write_robot

LENGTHS = [6, 7, 5]
TOP = "videos/top/chunk-000/file-000.mp4"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_robot(tmp_path / "robot", LENGTHS, ["top"], layout=Layout(episodes_per_video_file=2))


def faults(folder: Path, metadata: Path, *, anew: bool = False) -> list[tuple[str, str]]:
    """Return kind and words of all faults."""
    progress: list[tuple[int, int]] = []
    damaged = partial(damaged_frames, decoders=Decoders())
    reader = reader_of(folder, metadata)
    problems = reader.check(CODECS, damaged, lambda done, jobs: progress.append((done, jobs)), anew=anew)
    assert progress == [(done, 6) for done in range(1, 7)], "a file of rows, two videos, and three episodes in these"
    return [(problem.kind, str(problem)) for problem in problems.first]


def rewrite(path: Path, keep: list[list[int]], fps: int) -> None:
    """Write a video anew, with some frames of its episodes and at a frame rate."""
    clips = [
        np.asarray(episode(number, LENGTHS[number], ["top"]).values["top"])[frames]
        for number, frames in enumerate(keep)
    ]
    write_video(path, clips, fps, Encoding())


def test_a_good_dataset_has_no_faults(folder: Path, tmp_path: Path) -> None:
    assert faults(folder, tmp_path / "metadata") == []


def test_a_video_at_another_rate_has_gaps_against_that_of_the_dataset(folder: Path, tmp_path: Path) -> None:
    rewrite(folder / TOP, [list(range(6)), list(range(7))], FPS - 1)
    found = faults(folder, tmp_path / "metadata")
    assert [kind for kind, _ in found] == ["gap", "gap"]
    expected = "at 30 fps frame 1 should be shown at 0.0333 s, but the nearest frame of the video is 0.0011 s"
    assert f"{TOP}, episode 0: {expected}" in found[0][1]


def test_frames_that_a_video_lacks_are_counted_per_episode(folder: Path, tmp_path: Path) -> None:
    rewrite(folder / TOP, [list(range(6)), list(range(4))], FPS)
    assert faults(folder, tmp_path / "metadata") == [
        ("missing frames", f"{TOP}, episode 1: the video has 4 of its 7 frames")
    ]


def test_a_video_that_lacks_frames_of_its_first_episode_has_none_of_the_second_in_their_place(
    folder: Path, tmp_path: Path
) -> None:
    rewrite(folder / TOP, [list(range(4)), list(range(7))], FPS)
    # What follows moves forward in the file, so the faults that can be seen are those at its end.
    assert faults(folder, tmp_path / "metadata") == [
        ("missing frames", f"{TOP}, episode 1: the video has 5 of its 7 frames")
    ]


def test_times_of_rows_that_jump_are_a_gap(folder: Path, tmp_path: Path) -> None:
    later = {row: (row - 6 + 2) / FPS for row in range(9, 13)}  # of episode 1, from its frame 3 on
    edit_table(folder, ROWS, {"timestamp": later})
    assert faults(folder, tmp_path / "metadata") == [
        ("gap", f"{ROWS}, episode 1: frames 2 and 3 are 0.1000 s apart; at 30 fps it should be 0.0333 s")
    ]


def test_times_of_rows_that_all_are_late_are_a_fault_where_videos_are_found_by_them(
    folder: Path, tmp_path: Path
) -> None:
    edit_table(folder, ROWS, {"timestamp": {row: (row - 6 + 1) / FPS for row in range(6, 13)}})
    assert faults(folder, tmp_path / "metadata") == [
        ("time", f"{ROWS}, episode 1: frame 0 has the timestamp 0.0333 s; at 30 fps it should be 0.0000 s")
    ]


def test_values_that_would_change_are_reported_by_episode_feature_and_row(folder: Path, tmp_path: Path) -> None:
    edit_info(folder, lambda info: info["features"]["action"].update(dtype="int8"))
    edit_table(folder, ROWS, {"action": {8: [2.0, 300.0, 4.0]}, "task_index": {15: None}})
    assert faults(folder, tmp_path / "metadata") == [
        ("rows", f"{ROWS}, episode 1: action: row 2 holds 300.0, which int8 can't represent"),
        ("rows", f"{ROWS}, episode 2: task_index: some values are missing"),
    ]


def test_all_faults_are_kept_however_many(tmp_path: Path) -> None:
    lengths = [2] * 60
    folder = write_robot(tmp_path / "robot", lengths)
    edit_table(folder, ROWS, {"timestamp": dict.fromkeys(range(1, 120, 2), 0.5)})
    problems = reader_of(folder, tmp_path / "metadata").check(CODECS, lambda *_: [], lambda done, jobs: None)
    assert len(problems.first) == 60 and problems.counts == {"gap": 60}


def frame_bytes(folder: Path, metadata: Path, at: int, frame: int) -> slice:
    """Return where a frame of an episode lies in its video."""
    clip = reader_of(folder, metadata)._videos.clip("top", at)
    start, end = clip.byte_range(Piece(frame, frame))
    return slice(start + 8, end)


def test_damaged_frames_are_reported_by_episode_until_the_file_is_restored(folder: Path, tmp_path: Path) -> None:
    good = (folder / TOP).read_bytes()
    damaged = bytearray(good)
    here = frame_bytes(folder, tmp_path, 1, 2)
    damaged[here] = bytes(here.stop - here.start)
    (folder / TOP).write_bytes(damaged)
    for _ in range(2):
        [(kind, words)] = faults(folder, tmp_path / "metadata")
        assert kind == "damage" and words.startswith(f"{TOP}, episode 1: damaged frames: ")
        assert words.endswith("; restore the file, or leave the episode out")
    (folder / TOP).write_bytes(good)
    assert faults(folder, tmp_path / "metadata") == []


@pytest.mark.parametrize("touched", [True, False])
def test_bytes_that_are_not_those_that_were_indexed_are_reported_by_episode(
    folder: Path, tmp_path: Path, touched: bool
) -> None:
    assert faults(folder, tmp_path / "metadata") == []
    status = (folder / TOP).stat()
    data = bytearray((folder / TOP).read_bytes())
    last = frame_bytes(folder, tmp_path, 1, 6).stop - 1
    data[last] ^= 1
    with (folder / TOP).open("r+b") as file:
        file.write(data)
    if not touched:
        os.utime(folder / TOP, ns=(status.st_atime_ns, status.st_mtime_ns))
    for _ in range(2):
        assert faults(folder, tmp_path / "metadata") == [
            (
                "damage",
                f"{TOP}, episode 1: 1 of its frames differ from those that were indexed before: they are "
                "damaged, or the file was replaced; restore it, or index it with --anew",
            )
        ]
    accepted = faults(folder, tmp_path / "metadata", anew=True)
    assert not [words for _, words in accepted if "indexed before" in words], "at most what a decoder notices"


def test_a_video_that_was_replaced_is_reported_until_it_is_accepted(folder: Path, tmp_path: Path) -> None:
    assert faults(folder, tmp_path / "metadata") == []
    write_video(
        folder / TOP, [episode(at, LENGTHS[at], ["top"]).values["top"][:, ::-1] for at in (0, 1)], FPS, Encoding()
    )
    [(kind, words)] = faults(folder, tmp_path / "metadata")
    assert kind == "video" and words.startswith(f"{TOP}: its header, or its length, is not what `penstock index` read")
    assert faults(folder, tmp_path / "metadata", anew=True) == []
    assert faults(folder, tmp_path / "metadata") == []


def test_what_was_read_before_is_not_decoded_again(folder: Path, tmp_path: Path) -> None:
    decoded: list[int] = []

    def check(**filters: object) -> None:
        reader = reader_of(folder, tmp_path / "metadata", **filters)
        reader.check(CODECS, lambda clip, _: decoded.append(clip.first) or [], lambda done, jobs: None)

    check(episodes=[1])
    check()
    check()
    assert sorted(decoded) == [0, 0, 6], "episode 1 was read before the others, which are in two files"
