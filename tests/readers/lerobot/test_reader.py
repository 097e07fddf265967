"""The reader of a dataset: moments, names, extents, and what crosses to another process."""

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from penstock.curate.robot.writer import Layout
from penstock.readers.errors import ContentError
from penstock.readers.lerobot.moment import Moment, VideoFrames
from penstock.readers.lerobot.windows import Needs
from penstock.readers.mp4.clip import Piece
from tests.readers.lerobot.datasets import reader_of, uses_of
from tests.robots import FPS, write_robot

LENGTHS = [5, 3, 4]
NEEDS = Needs({"action": (-1 / FPS, 0.0), "top": (0.0, 2 / FPS)}, 1e-4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    layout = Layout(episodes_per_data_file=2, episodes_per_video_file=2)
    return write_robot(tmp_path_factory.mktemp("robot"), LENGTHS, ["top", "wrist"], layout=layout)


def moment(places: list[Moment | ContentError]) -> Moment:
    [found] = places
    assert isinstance(found, Moment)
    return found


def test_a_moment_has_values_windows_frames_and_the_task(folder: Path, tmp_path: Path) -> None:
    reader = reader_of(folder, tmp_path, needs=NEEDS)
    found = moment(reader.read(reader.locate(uses_of(reader, "1:1"))))  # type: ignore[arg-type]
    assert found.values["observation.state"].tolist() == [1, 1]
    assert found.values["action"].tolist() == [[0, 0, 0], [1, -1, 1]]
    assert found.task == "task 1"
    assert found.is_pad["action"].tolist() == [False, False] and found.is_pad["top"].tolist() == [False, True]
    top = found.frames["top"]
    assert isinstance(top, VideoFrames) and len(top.numbers) == 2
    assert top.file == "robot/videos/top/chunk-000/file-000.mp4"
    reader.close()


def test_keys_that_are_not_used_are_not_read(folder: Path, tmp_path: Path) -> None:
    reader = reader_of(folder, tmp_path)
    reader.use(["action", "wrist"])
    found = moment(reader.locate(uses_of(reader, "0:0")))
    assert set(found.frames) == {"wrist"} and "observation.state" not in found.values
    assert {"action", "timestamp", "index", "task_index"} <= set(found.values)
    paths = {extent.unit.path for extent in reader.resident(0, 0)}
    assert not [path for path in paths if "top" in path]
    copy = pickle.loads(pickle.dumps(reader.__reduce__()[1][-1]))
    assert copy == ["action", "wrist"], "a copy in another process reads the same"


def test_names_and_find_are_inverse(folder: Path, tmp_path: Path) -> None:
    reader = reader_of(folder, tmp_path, exclude_episodes=[1], drop_n_last_frames=1)
    names = [f"{episode}:{frame}" for episode in (0, 2) for frame in range(LENGTHS[episode] - 1)]
    assert reader.names(uses_of(reader, *names)) == names
    for absent in ("1:0", "0:4", "2:3", "3:0", "", ":", "0", "0:0:0", "x:0:0"):
        assert reader.find(absent, 0) == []


def test_wants_are_the_bytes_that_the_frames_are_decoded_from(folder: Path, tmp_path: Path) -> None:
    reader = reader_of(folder, tmp_path, needs=NEEDS)
    uses = uses_of(reader, "1:0")
    found = moment(reader.locate(uses))
    [extents] = reader.wants(uses)
    wanted = {(extent.unit.path, extent.start, extent.end) for extent in extents}
    assert not [path for path, _, _ in wanted if path.endswith(".parquet")], "the rows are here"
    for frames in found.frames.values():
        assert isinstance(frames, VideoFrames)
        clip = frames.clip
        for number in frames.numbers.tolist():
            start, end = clip.byte_range(Piece(int(clip.starts[number]), number))
            assert any(path == clip.path and low <= start and end <= high for path, low, high in wanted)
    resident = {extent.unit.path for extent in reader.resident(0, 1)}
    assert resident == {frames.clip.path for frames in found.frames.values() if isinstance(frames, VideoFrames)}


def test_a_file_that_is_missing_is_a_content_error_of_its_frames(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    (copy / "videos/wrist/chunk-000/file-001.mp4").unlink()
    reader = reader_of(copy, tmp_path)
    good, bad = reader.locate(uses_of(reader, "0:0", "2:1"))
    assert isinstance(good, Moment) and isinstance(bad, ContentError)
    assert bad.item == "2:1" and "file-001.mp4" in bad.reason
    assert reader.wants(uses_of(reader, "2:1")), "what is there is still fetched ahead"


def test_a_forked_child_reads_for_itself(folder: Path, tmp_path: Path) -> None:
    reader = reader_of(folder, tmp_path)
    moment(reader.locate(uses_of(reader, "0:0")))
    child = os.fork()
    if not child:
        code = 1
        try:
            found = moment(reader.locate(uses_of(reader, "2:3")))
            code = 0 if found.values["observation.state"].tolist() == [2, 3] else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_the_working_set_is_the_clips_of_the_pool(folder: Path, tmp_path: Path) -> None:
    assert reader_of(folder, tmp_path, pool=2).clips == 4
    assert reader_of(folder, tmp_path, pool=256).clips == 6
    np.testing.assert_array_equal(reader_of(folder, tmp_path).group_bytes(0), [0, 0, 0])
