"""The README is true: its commands and its example run, and the tests that it names are there."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.demos.mix import CONFIG
from penstock.cli.demos.mix_data import HOURS, make_demo_data
from tests.cli.commands import run, shell

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the demo has run, on a tenth of its data."""
    home = tmp_path_factory.mktemp("home")
    folder = home / "demo-data"
    folder.mkdir()
    assert set(make_demo_data(folder, clips=60)) == set(HOURS)
    (folder / "demo.yaml").write_text(CONFIG.format(name="demo.yaml", weights=json.dumps(HOURS).replace('"', "")))
    done = shell("demo", "--dir", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("✓ identical") == 3 and "DIFFERENT" not in done.stdout
    return home


def test_the_example_runs_as_it_stands(home: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    example += "\nprint('state after', state['step'])\n"
    done = subprocess.run([sys.executable, "-c", example], cwd=home, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    *_, last, state = done.stdout.splitlines()
    assert last.startswith("20 [") and state == "state after 21"


def test_the_commands_that_need_no_bucket_run_as_they_stand(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = re.findall(r"^penstock (\w+ demo-data.*?)(?:#.*)?$", README, re.MULTILINE)
    assert [line.split()[0] for line in listed] == ["index", "plan", "mix", "where", "replay", "bench"]
    monkeypatch.chdir(home)
    for line in listed:
        result = run(*line.split())
        assert result.exit_code == 0 and result.stdout, result.output


def test_every_test_and_page_that_it_names_is_there() -> None:
    named = [*re.findall(r"`(tests/[^`]+)`", README), *re.findall(r"\]\(([^):]+)\)", README)]
    assert len(named) > 8
    assert [path for path in named if not (ROOT / path).exists()] == []
