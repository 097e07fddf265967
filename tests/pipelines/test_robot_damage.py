"""Robot videos that are damaged after `penstock index`: every frame that is served is the one that was indexed."""

import json
import os
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import penstock
from penstock.curate.robot.writer import Episode, Layout, write_dataset
from penstock.media.video.encoding import Encoding
from tests.cli.commands import run
from tests.conftest import S3Prefix
from tests.videos import write_moving_video

LENGTHS = (40, 24)
ENCODINGS = {
    "h264, groups of 20": Encoding("h264", 20),
    "h264, groups of 20, 3 B-frames": Encoding("h264", 20, 3),
    "hevc, open groups of 12, 3 B-frames": Encoding("hevc", 12, 3),
    "av1, groups of 20": Encoding("av1", 20),
}
TOP = "videos/top/chunk-000/file-000.mp4"
Frames = dict[str, NDArray[np.uint8]]


def episodes() -> list[Episode]:
    """Pictures that move: damage in one of them is seen in those that follow."""
    rows, columns = np.mgrid[:48, :64]
    found = []
    for number, length in enumerate(LENGTHS):
        step = np.arange(length)[:, None, None] + 100 * number
        shades = (columns * 3 + step * 3, rows * 4 + step * 5, columns + rows + step * 7)
        found.append(Episode("t", {"top": np.stack(shades, axis=-1).astype(np.uint8)}))
    return found


@pytest.fixture(scope="module", params=ENCODINGS)
def good(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    write_dataset(folder, episodes(), fps=30, layout=Layout(encoding=ENCODINGS[request.param]))
    return folder


def config_of(folder: Path, store: str, **options: Any) -> Path:
    path = folder / "run.yaml"
    keys = {"recipe": "robot", "store": store, "batch_size": 8, "passes": 1, "max_bad": 1.0, **options}
    path.write_text(json.dumps({"cache": {"dir": str(folder / "cache"), "size": "100MB"}, **keys}))
    return path


def served(config: Path, **options: Any) -> tuple[Frames, list[str]]:
    """Return the frames of one pass by their ids, and the reasons of bad ones."""
    found: Frames = {}
    reasons = []
    with closing(penstock.open(config, **options)) as feed:
        for step in range(len(feed)):
            batch = feed.batch(step)
            reasons += [bad.reason for bad in batch["bad"]]
            for name, frame, is_valid in zip(batch["ids"], np.asarray(batch["top"]), batch["valid"], strict=True):
                if is_valid:
                    found[name] = frame.copy()
    return found, reasons


def wrong_frames(found: Frames, expected: Frames) -> list[str]:
    return [name for name, frame in found.items() if not np.array_equal(frame, expected[name])]


def damages(data: bytes, count: int) -> list[bytes]:
    """Return files with four wrong bytes each, among their frames."""
    random = np.random.default_rng(9)
    begin = data.index(b"mdat") + 8
    end = data.rindex(b"moov") if data.rindex(b"moov") > begin else len(data)
    found = []
    for at in random.integers(begin, end - 4, count).tolist():
        other = bytes(byte ^ int(random.integers(1, 256)) for byte in data[at : at + 4])
        found.append(data[:at] + other + data[at + 4 :])
    return found


def test_of_an_indexed_dataset_no_wrong_frame_is_served(good: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(good, tmp_path / "copy"))
    config = config_of(tmp_path, str(folder))
    expected, reasons = served(config)
    assert len(expected) == sum(LENGTHS) and not reasons
    assert run("index", config).exit_code == 0
    data = (folder / TOP).read_bytes()
    status = (folder / TOP).stat()
    for number, damaged in enumerate(damages(data, 10)):
        (folder / TOP).write_bytes(damaged)
        if number % 2:
            os.utime(folder / TOP, ns=(status.st_atime_ns, status.st_mtime_ns))
        found, reasons = served(config)
        assert wrong_frames(found, expected) == []
        assert reasons and all(reason.startswith(f"{folder}/{TOP}: a frame, bytes ") for reason in reasons)
        result = run("index", config)
        assert result.exit_code == 2
        assert f"{TOP}, episode " in result.stderr and "differ from those that were indexed before" in result.stderr
    (folder / TOP).write_bytes(data)
    found, reasons = served(config)
    assert len(found) == len(expected) and not wrong_frames(found, expected) and not reasons


def test_a_damaged_header_of_an_indexed_video_is_refused(good: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(good, tmp_path / "copy"))
    config = config_of(tmp_path, str(folder))
    expected, _ = served(config)
    assert run("index", config).exit_code == 0
    data = (folder / TOP).read_bytes()
    random = np.random.default_rng(4)
    begin = data.index(b"moov")
    for at in random.integers(begin, data.index(b"mdat") if begin < data.index(b"mdat") else len(data), 12).tolist():
        (folder / TOP).write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        found, _ = served(config)
        assert wrong_frames(found, expected) == []


def test_of_an_indexed_bucket_no_wrong_frame_is_served(good: Path, s3: S3Prefix, tmp_path: Path) -> None:
    for path in good.rglob("*.*"):
        s3.put(str(path.relative_to(good)), path.read_bytes())
    remote = {"endpoint": s3.options.endpoint, "region": s3.options.region}
    config = config_of(tmp_path, s3.url, remote=remote)
    expected, _ = served(config)
    assert run("index", config).exit_code == 0
    for damaged in damages((good / TOP).read_bytes(), 3):
        s3.put(TOP, damaged)
        found, reasons = served(config)
        assert reasons and wrong_frames(found, expected) == []


@pytest.mark.parametrize("open_groups", [False, True])
def test_episodes_that_were_damaged_before_are_reported_by_index_and_their_frames_refused(
    tmp_path: Path, open_groups: bool
) -> None:
    write_dataset(tmp_path / "robot", episodes(), fps=30, layout=Layout(encoding=ENCODINGS["h264, groups of 20"]))
    path = tmp_path / "robot" / TOP
    if open_groups:
        write_moving_video(path, sum(LENGTHS), 10, 3, open_groups=True)
    config = config_of(tmp_path, str(tmp_path / "robot"))
    expected, _ = served(config)
    reported = 0
    for damaged in damages(path.read_bytes(), 10):
        path.write_bytes(damaged)
        before, _ = served(config, cache={"dir": str(tmp_path / "other"), "size": "100MB"})  # without an index
        result = run("index", config, "--anew")
        found, _ = served(config)
        if result.exit_code:
            reported += 1
            assert f"{TOP}, episode " in result.stderr and ": damaged frames: " in result.stderr
            assert len(found) < len(expected)
        assert set(found) == set(before), "what the index marks is what the decoder marks"
    assert reported > 4, "decoders notice most damage in H.264"
