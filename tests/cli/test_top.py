"""``penstock top``: once into a pipe, and in a real terminal until Ctrl-C."""

import json
import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

import penstock
from tests.cli.commands import SHELL, config_of, run
from tests.observe.trained import train


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = config_of(tmp_path, usage={"log": "usage.jsonl", "every": 5})
    feed = penstock.open(path, rank=0, world=1)
    train(feed, 0, 20)
    feed.close()
    return path


def test_into_a_pipe_it_prints_once(config: Path, tmp_path: Path) -> None:
    result = run("top", tmp_path / "usage.jsonl")
    assert result.exit_code == 0 and "1 of 1 rank on 1 node" in result.output
    assert "step 20 " in result.output and "assamese" in result.output and "quota" not in result.output
    assert "\x1b" not in result.output
    result = run("top", config)
    assert result.exit_code == 0 and "quota" in result.output and "loss" in result.output


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0449, "44.9 ms"), (0.09996, "100 ms"), (0.3187, "319 ms"), (0.9996, "1.0 s"), (61, "61.0 s")],
)
def test_a_table_of_ranks_fits_into_a_narrow_terminal(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, said: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    log = tmp_path / "usage.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line["host"] = "node-1.rack-2.example.com"
        if "stalls" in line:
            line["stalls"] = [seconds] * 5
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    shown = run("top", log).stdout.splitlines()
    assert max(map(len, shown)) <= 80
    assert all(name in shown[3] for name in ("rank", "step", "samples/s", "waits", "median", "p95", "p99", "age"))
    [row] = [line for line in shown if line.startswith("│ 0 ")]
    assert "…" in row and row.count(f" {said} ") == 3


def test_what_is_no_ledger_of_this_run_is_one_sentence(config: Path, tmp_path: Path) -> None:
    (tmp_path / "no.jsonl").write_text('{"time": 3, "ho')
    (tmp_path / "other.yaml").write_text(config.read_text() + "\nseed: 77\n")
    (tmp_path / "bare.yaml").write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), "usage": None}))
    for arguments, said in (
        ([tmp_path / "no.jsonl"], "not a usage ledger"),
        ([tmp_path / "missing.jsonl"], "no such file"),
        ([tmp_path / "other.yaml"], "written by another run"),
        ([config, tmp_path / "other.yaml"], "are two configs"),
        ([tmp_path / "bare.yaml"], "the run has no ledger"),
    ):
        result = run("top", *arguments)
        assert result.exit_code == 2 and said in result.output and len(result.output.splitlines()) == 1


def test_a_ledger_that_is_not_there_yet_is_named_with_what_writes_it(tmp_path: Path) -> None:
    result = run("top", config_of(tmp_path, usage={"log": "usage.jsonl"}))
    assert result.exit_code == 2
    assert f"{tmp_path / 'usage.jsonl'}: there is no such file yet; a run writes it" in result.output


def test_in_a_terminal_it_follows_the_run_and_leaves_the_terminal_as_it_was(config: Path) -> None:
    main, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    with subprocess.Popen(
        [*SHELL, "top", config], stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    ) as shown:
        os.close(terminal)
        seen = _until(main, "step 20 ")
        feed = penstock.open(config, rank=0, world=1)
        train(feed, 20, 10)
        feed.close()
        seen += _until(main, "step 30 ")
        shown.send_signal(signal.SIGTERM)  # it is handled as Ctrl-C
        seen += _until(main, None)
        assert shown.wait(60) == 0
    os.close(main)
    assert seen.count("\x1b[?1049h") == seen.count("\x1b[?1049l") == 1  # the alternate screen
    assert seen.rindex("\x1b[?25h") > seen.rindex("\x1b[?25l")  # the cursor
    assert "step 30 " in seen[seen.rindex("\x1b[?1049l") :] and "Traceback" not in seen


def _until(main: int, text: str | None) -> str:
    """Return what a terminal shows until a text comes; None for the end."""
    seen = b""
    deadline = time.monotonic() + 120
    while text is None or text.encode() not in seen:
        assert time.monotonic() < deadline, seen.decode()
        if select.select([main], [], [], 1)[0]:
            try:
                seen += os.read(main, 1 << 16)
            except OSError:  # the terminal was closed
                break
    return seen.decode()
