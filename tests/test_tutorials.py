"""The tutorials are true: their commands and their code run in order, and print what the pages show."""

import contextlib
import io
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from penstock.cli.demos import chat, robot
from penstock.cli.demos.chat_data import TOKENS, make_chat_data
from penstock.cli.demos.mix_data import make_demo_data
from penstock.cli.demos.robot_data import make_robot_data
from tests.cli.commands import run

START = Path(__file__).parent.parent / "docs" / "start"
BLOCK = re.compile(r"```(console|python|yaml|text)\n(.*?)```", re.DOTALL)


def make_speech(home: Path) -> None:
    for _ in make_demo_data(home / "demo-data"):
        pass
    shown = dict(BLOCK.findall((START / "speech.md").read_text()))["yaml"]
    (home / "run.yaml").write_text(shown)


def make_chat(home: Path) -> None:
    folder = home / "demo-data" / "chat"
    for _ in make_chat_data(folder):
        pass
    tokens = "\n".join(f"    {name}: {json.dumps(token)}" for name, token in TOKENS.items())
    text = chat.CONFIG.format(
        name="demo.yaml", rows=chat.ROWS, length=chat.LENGTH, image_size=chat.IMAGE_SIZE, tokens=tokens
    )
    (folder / "demo.yaml").write_text(text)
    shown = yaml.safe_load(dict(BLOCK.findall((START / "chat.md").read_text()))["yaml"])
    written = yaml.safe_load(text)
    assert shown.pop("chat").items() <= written["chat"].items() and shown.items() <= written.items()


def make_robot(home: Path) -> None:
    folder = home / "demo-data" / "robot"
    for _ in make_robot_data(folder / "dataset", robot.EPISODES):
        pass
    text = robot.CONFIG.format(name="demo.yaml")
    (folder / "demo.yaml").write_text(text)
    shown = dict(BLOCK.findall((START / "robot.md").read_text()))["yaml"]
    assert yaml.safe_load(shown) == yaml.safe_load(text)


@pytest.mark.long
@pytest.mark.parametrize(("page", "make"), [("speech", make_speech), ("chat", make_chat), ("robot", make_robot)])
def test_a_tutorial_prints_what_it_shows(
    page: str, make: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`penstock demo` itself is run by tests/cli/test_demo.py; here its data is made."""
    make(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = (tmp_path / "demo-data" / "train.tsv").read_text() if page == "speech" else ""
    commands = 0
    for language, block in BLOCK.findall((START / f"{page}.md").read_text()):
        if language == "console" and "demo" not in block.split()[1]:
            done = run(*shlex.split(block.removeprefix("penstock ")))
            assert done.exit_code == 0, done.output
            printed = done.stdout
            commands += 1
        elif language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(block, names)
            printed = out.getvalue()
        elif language == "text":
            missing = [line for line in block.splitlines() if line not in printed.splitlines()]
            assert missing == [], printed
    assert commands >= 2


def test_the_pictures_are_there_and_small() -> None:
    root = START.parent.parent
    shown = {
        (page.parent / image).resolve()
        for page in [root / "README.md", *(root / "docs").rglob("*.md")]
        for image in re.findall(r'(?:!\[[^]]*\]\(|(?:src|srcset)=")([^)":]+\.(?:svg|png|webp))', page.read_text())
    }
    assert shown == {path.resolve() for path in (root / "docs" / "images").iterdir()}
    assert all(1_000 < image.stat().st_size <= 300_000 for image in shown)
