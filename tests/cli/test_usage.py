"""``penstock usage``: what a run has used, shown and proven."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock
from tests.cli.commands import complaint, config_of, run

Written = tuple[Path, Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """A run and its ledger of 25 steps."""
    config = config_of(tmp_path)
    options: dict[str, Any] = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({**options, "usage": {"log": "logs/data_usage.jsonl", "every": 10, "ids": True}}))
    with penstock.open(config, rank=0, world=1).loader(threads=2) as loader:
        for _ in range(25):
            next(loader)
    return config, tmp_path / "logs" / "data_usage.jsonl"


def test_it_shows_samples_a_source_shards_and_steps(written: Written) -> None:
    _, log = written
    result = run("usage", log, "--shards", 2)
    assert result.exit_code == 0, result.output
    assert "300 samples in 3 lines of 1 processes (1 ranks), steps 0 to 24" in result.output
    for source in ("assamese", "bengali", "gujarati"):
        (row,) = (line for line in result.output.splitlines() if source in line and ".tar" not in line)
        assert "100" in row and "33.33%" in row
    assert "8 shards used" in result.output and result.output.count(".tar") == 2
    assert "0 bad samples" in result.output


def test_it_shows_how_long_steps_stood_still(tmp_path: Path, written: Written) -> None:
    lines = [json.loads(line) for line in written[1].read_text().splitlines()]
    for number, line in enumerate(lines):
        line["stalls"] = [0.001] * 9 + [0.5 * number] if number < 2 else [0.001] * 5
    (tmp_path / "usage.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = "waited 0.5 s for data: 1.0 ms a step in the median, 1.0 ms in the worst of a hundred, 500.0 ms at step 19"
    assert told in run("usage", tmp_path / "usage.jsonl").output


def test_the_check_shows_how_far_from_quota_each_source_is(written: Written) -> None:
    config, log = written
    result = run("usage", log, "--check", config)
    assert result.exit_code == 0, result.output
    assert result.output.count("+0.00") == 3
    assert "says the same, for all 300 samples" in result.output


def test_a_changed_line_fails_the_check(written: Written) -> None:
    config, log = written
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines[1]["ids"][4][0] = "[/] a name with brackets"
    log.write_text("\n".join(map(json.dumps, lines)))
    result = run("usage", log, "--check", config)
    assert result.exit_code == 2
    assert "step 14 planned" in result.output and "used [/] a name with brackets" in result.output
    assert f"{log} and the plan of {config} differ in 1 places" in result.stderr


def test_a_missing_line_fails_the_check(written: Written) -> None:
    config, log = written
    first, _, last = log.read_text().splitlines()
    log.write_text(f"{first}\n{last}\n")
    assert run("usage", log).exit_code == 0
    result = run("usage", log, "--check", config)
    assert result.exit_code == 2 and "no line is about steps 10:20" in result.output


def test_steps_that_were_repeated_are_told_and_count_once(written: Written) -> None:
    config, log = written
    with penstock.open(config, rank=0, world=1).loader(start=14, threads=2) as loader:
        for _ in range(11):
            next(loader)
    result = run("usage", log, "--check", config)
    assert result.exit_code == 0, result.output
    assert "300 samples in 5 lines" in result.output and "says the same, for all 300 samples" in result.output
    assert "11 steps of a rank were repeated" in result.output and "twice" not in result.output
    assert result.output.count("+0.00") == 3
    assert "but 6 count twice" in run("usage", log).output


def test_a_torn_line_fails_the_check_and_is_shown_without_it(written: Written) -> None:
    config, log = written
    log.write_text(log.read_text()[:-40])
    assert "1 torn lines" in run("usage", log).output
    result = run("usage", log, "--check", config)
    assert result.exit_code == 2 and "line 3 is no line of a ledger" in result.output


def test_a_ledger_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert "nothing.jsonl" in complaint(run("usage", tmp_path / "nothing.jsonl"))
