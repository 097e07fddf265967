"""What is said of LeRobot's own tests: in the docs, and where there is no checkout of its repository."""

import re
import subprocess
import sys
from pathlib import Path

from tests.parity.theirs import CANNOT

DOCS = Path(__file__).parents[2] / "docs" / "lerobot.md"
COMMAND = [sys.executable, "-m", "tests.parity.theirs", "--lerobot", sys.executable]


def test_the_table_in_the_docs_has_every_test_and_why_it_can_not_pass() -> None:
    text = DOCS.read_text()
    rows = re.findall(r"^\| `(test_\w+)` \| (\d+) \| (.*?) \|$", text, re.MULTILINE)
    failing = {name: why for name, _, why in rows if not why.startswith("passes")}
    assert failing == CANNOT
    passing = sum(int(cases) for name, cases, _ in rows if name not in CANNOT)
    assert f"{passing} of {sum(int(cases) for _, cases, _ in rows)} pass" in text


def test_without_a_checkout_the_tests_are_skipped_by_name(tmp_path: Path) -> None:
    done = subprocess.run(COMMAND, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("SKIPPED: LeRobot's own tests: make lerobot-parity LEROBOT=")
    wrong = subprocess.run([*COMMAND, str(tmp_path)], capture_output=True, text=True)
    assert wrong.returncode == 1
    assert f"{tmp_path} has no tests/datasets/test_streaming.py" in wrong.stderr
