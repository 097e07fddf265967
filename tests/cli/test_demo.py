"""``penstock demo``: what it shows is true. The mix is shown in tests/test_readme.py."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from penstock.cli.demos import chat
from tests.cli.commands import run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the robot demo has run."""
    folder = tmp_path_factory.mktemp("home") / "robot"
    done = run("demo", "robot", "--dir", folder)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("✓ identical") == 2 and "DIFFERENT" not in done.stdout
    return folder


def test_the_robot_demo_saves_a_contact_sheet_of_frames(home: Path) -> None:
    sheet = np.asarray(Image.open(io.BytesIO((home / "frames.png").read_bytes())))
    left, head = 48, 16
    assert sheet.shape == (head + 8 * 100, left + 4 * 100, 3), "8 samples: 3 frames of a camera and 1 of the other"
    labels = [sheet[head + 100 * row :][:100, :left] for row in range(8)]
    labels += [sheet[:head, left + 100 * column :][:, :100] for column in range(4)]
    assert all(label.min() < 100 and label.mean() > 200 for label in labels), "dark text on white"
    assert len({label.tobytes() for label in labels}) == len(labels), "each says something else"
    frames = sheet[head:, left:].reshape(8, 100, 4, 100, 3).swapaxes(1, 2)
    assert all(len(np.unique(frame.reshape(-1, 3), axis=0)) > 20 for row in frames for frame in row), "a picture each"
    assert (frames[:, 0, 0] == (220, 30, 30)).all(axis=(1, 2)).any(), "a frame outside of its episode"


def test_the_robot_demo_leaves_a_run_for_the_other_commands(home: Path) -> None:
    config = home / "demo.yaml"
    planned = run("plan", config, "--steps", "40:41")
    assert planned.exit_code == 0 and len(planned.stdout.splitlines()) == 17
    assert run("where", config, "3:17", "--epochs", "2").exit_code == 0
    assert run("replay", config, "--steps", "40", "-o", home / "seen").exit_code == 0
    assert len(list((home / "seen").rglob("*.png"))) == 32


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    done = run("demo", "dance", "--dir", tmp_path)
    assert done.exit_code == 2 and "dance" in done.stderr and "robot" in done.stderr


def test_the_chat_demo_packs_trains_and_resumes_identically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "STEPS", 20)
    monkeypatch.setattr(chat, "STOP", 8)
    done = run("demo", "chat", "--dir", tmp_path)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("✓ identical") == 3 and "DIFFERENT" not in done.stdout
    config = tmp_path / "demo.yaml"
    found = run("where", config, "shapes.jsonl:7", "--epochs", "2")
    assert found.exit_code == 0 and len(found.stdout.splitlines()) == 3
