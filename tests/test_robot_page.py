"""The robot pages are true: their run is valid, their examples run, all keys are listed, every sentence has a test."""

import re
from pathlib import Path

import pytest
import yaml

from penstock.cli.demos.robot_data import make_robot_data
from penstock.config import make_config
from penstock.pipelines import PIPELINES
from penstock.pipelines.robot import RobotOptions, RobotSource
from tests.robots import write_robot

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "robot.md").read_text()
LEROBOT = (ROOT / "docs" / "lerobot.md").read_text()
MOVE = (ROOT / "docs" / "moves" / "lerobot.md").read_text()
COMING_FROM = (ROOT / "docs" / "coming-from.md").read_text()


def test_the_run_is_valid() -> None:
    [block] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    config = make_config(yaml.safe_load(block), PIPELINES, folder=Path())
    assert [entry.name for entry in config.sources] == ["kitchen", "lab", "table"]


def test_the_move_from_lerobot_has_each_frame_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [_, after] = re.findall(r"```python\n(.*?)```", MOVE, re.DOTALL)
    write_robot(tmp_path / "arm", [20, 16, 24, 20], ["observation.images.top"], fps=10)
    monkeypatch.chdir(tmp_path)
    trained: list[int] = []
    found: dict[str, object] = {"train": lambda index, *_: trained.extend(index.tolist())}
    exec(after, found)
    assert sorted(trained) == list(range(80)) != trained
    state = found["state"]
    assert isinstance(state, dict) and state["step"] == 10


def test_the_examples_run_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [native] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    [compat] = re.findall(r"```python\n(.*?)```", LEROBOT, re.DOTALL)
    assert len(list(make_robot_data(tmp_path / "demo-data" / "robot" / "dataset", episodes=6))) == 6
    monkeypatch.chdir(tmp_path)
    found: dict[str, object] = {}
    exec(native, found)
    lines = capsys.readouterr().out.splitlines()
    assert [line.rsplit(" ", 1)[0] for line in lines] == [f"{step} torch.Size([8, 2, 3, 96, 96])" for step in range(3)]
    state = found["state"]
    assert isinstance(state, dict) and state["step"] == 3
    local = compat.replace('"org/kitchen",', '"org/kitchen", root="demo-data/robot/dataset",')
    exec(local.replace("num_workers=4", "num_workers=0").replace(": 1200", ": 2").replace("(1234)", "(4)"), found)
    state = found["state"]
    assert isinstance(state, dict) and state["batches_consumed"] == 4


def test_the_page_lists_every_key() -> None:
    section = PAGE.split("\n## Keys\n")[1].split("\n## ")[0]
    columns = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    listed = [key for column in columns for key in re.findall(r"`(\w+)`", column)]
    assert sorted(listed) == sorted([*RobotSource.model_fields, *RobotOptions.model_fields])


def test_every_sentence_of_the_document_has_a_command_or_a_test() -> None:
    section = COMING_FROM.split("\n## The document, sentence by sentence\n")[1]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    assert all(re.search(r"`(tests|examples|benchmarks|slurm)/|`make ", shown) for _, shown in rows)
    targets = re.findall(r"`make ([\w-]+)`", PAGE + LEROBOT + COMING_FROM)
    assert all(f"\n{target}:" in (ROOT / "Makefile").read_text() for target in targets)
