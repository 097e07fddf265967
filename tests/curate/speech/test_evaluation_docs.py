"""docs/evaluation.md is true: its config is the shipped one, its example runs, its tables name the keys there are."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.curate.speech.evaluations import build_from_folders, write_folders

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "evaluation.md").read_text()
SHIPPED = (ROOT / "config" / "evaluation.yaml").read_text()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    build_from_folders(write_folders(home / "clips", clips=5), home / "data" / "evaluation")
    (home / "config").mkdir()
    (home / "config" / "evaluation.yaml").write_text(SHIPPED)
    return home


def documented(name: str) -> dict[str, set[str]]:
    """The words in code type of every row of the table under a file's name."""
    table = PAGE.split(f"\n`{name}`:\n")[1].strip().split("\n\n")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines()[2:]]
    return {key.strip(" `"): set(re.findall(r"`(\w+)`", value)) for key, value in rows}


def test_the_config_is_the_shipped_one() -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert yaml.safe_load(shown) == yaml.safe_load(SHIPPED)


def test_the_example_scores_every_sample_once(home: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    code = f"seen = []\nscore = lambda wav: seen.append(len(wav))\n{example}\nprint(sorted(seen))"
    environment = {"PATH": "/usr/bin", "XDG_CACHE_HOME": str(home / "cache"), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=home, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    lines = (home / "data" / "evaluation" / "evaluation.tsv").read_text().splitlines()
    assert json.loads(done.stdout) == sorted(round(16_000 * float(line.split("\t")[3])) for line in lines)


def test_the_tables_name_every_key(home: Path) -> None:
    index: dict[str, Any] = json.loads((home / "data" / "evaluation" / "index.json").read_text())
    table = documented("index.json")
    assert {key.split(".")[0] for key in table} == set(index)
    assert table["languages.NAME"] == set(index["languages"]["hindi"])
    assert table["total"] == set(index["total"])
    manifest: dict[str, Any] = json.loads((home / "data" / "evaluation" / "evaluation_manifest.json").read_text())
    table, hindi = documented("evaluation_manifest.json"), manifest["languages"]["hindi"]
    assert table["languages.NAME"] == set(hindi) - {"archive"}
    keys = {"reason", *hindi["archive"], *hindi["archive"]["samples"][0]}
    assert table["languages.NAME.archive"] == keys
