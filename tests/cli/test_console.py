"""Data on the terminal: no markup, no emoji, no control characters; progress as bars or lines."""

import io
import logging
import os
import pty
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

import penstock
from penstock.cli.console import Terminal, escaped
from penstock.cli.progress import Progress
from tests.cli.commands import SHELL, config_of, run, shell
from tests.shards import write_shard

EVIL = "a[red]b :cat: c\x1b[31m\x07\x9b"
SHOWN = "a[red]b :cat: c\\x1b[31m\\x07\\x9b"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A run whose source, shard and items have names that are made to hurt."""
    write_shard(tmp_path / f"{EVIL}.tar", {f"x{number}{EVIL}": b"" for number in range(8)})
    lines = [f"{EVIL}.tar\tx{number}{EVIL}\tsource{EVIL}\t1.5\n" for number in range(8)]
    (tmp_path / "train.tsv").write_text("".join(lines))
    path = tmp_path / "run.yaml"
    path.write_text(
        "batch_size: 4\nfilelist: train.tsv\nstore: .\n"
        "usage: {log: usage.jsonl, every: 1}\ncache: {dir: c, size: 1GB}\n"
    )
    return path


def test_control_characters_become_escapes_and_letters_of_all_scripts_stay() -> None:
    assert escaped(EVIL) == SHOWN
    assert escaped("తెలుగు é 猫\u202e\udcff") == "తెలుగు é 猫\\u202e\\udcff"
    assert escaped("a\tb\n") == "a\\tb\\n" and escaped("a\tb\n", layout=True) == "a\tb\n"


def test_a_plan_shows_names_as_they_are(config: Path) -> None:
    for command in (["plan", config, "--world", "1"], ["where", config, f"x1{EVIL}", "--world", "1"]):
        result = run(*command)
        assert result.exit_code == 0, result.output
        assert SHOWN in result.stdout and "\x1b" not in result.stdout


def test_usage_and_mix_show_names_as_they_are(config: Path) -> None:
    with penstock.open(config, rank=0, world=1).loader(threads=0) as loader:
        next(loader)
        next(loader)
    for command in (["usage", config.parent / "usage.jsonl", "--check", config], ["mix", config]):
        done = subprocess.run(
            [*SHELL, *map(str, command)], capture_output=True, text=True, env={**os.environ, "COLUMNS": "250"}
        )
        assert done.returncode == 0, done.stderr
        assert f"source{SHOWN}" in done.stdout and "\x1b" not in done.stdout


def test_an_error_shows_names_as_they_are(config: Path) -> None:
    done = shell("where", config, f"nobody{EVIL}", "--world", "1")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"error: no source has an item with this name: nobody{SHOWN}; items have names such as "
    )
    assert "\x1b" not in done.stderr


def test_a_file_that_is_missing_is_named_without_a_number(tmp_path: Path) -> None:
    done = shell("usage", tmp_path / "none.jsonl")
    assert done.stderr == f"error: {tmp_path}/none.jsonl: no such file or directory\n"


def test_a_warning_of_the_library_is_one_line_on_stderr() -> None:
    script = (
        "import logging; from penstock.cli.console import show_warnings; show_warnings(); show_warnings();"
        "logging.getLogger('penstock.store').warning('slow %s', 'a\\x1b[2J'); logging.getLogger('penstock').info('x')"
    )
    done = subprocess.run([SHELL[0], "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "warning: slow a\\x1b[2J\n"


def test_without_a_terminal_progress_is_a_line_now_and_then() -> None:
    file = io.StringIO()
    with Progress("indexing", console=Console(file=file, markup=False), every=0.0) as progress:
        progress.update(3, 1200, "2 GB")
        assert list(progress.track(["a", "b"], 2)) == ["a", "b"]
    lines = ["indexing: 3 of 1,200, 2 GB", "indexing: 0 of 2", "indexing: 1 of 2", "indexing: 2 of 2"]
    assert file.getvalue().splitlines() == lines
    with Progress("pulling", in_bytes=True, console=Console(file=file, markup=False)) as progress:
        progress.update(3, None)
    assert len(file.getvalue().splitlines()) == 4, "nothing in the first half minute"


def test_on_a_terminal_progress_is_a_bar_and_stdout_stays_clean(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*SHELL, "index", str(tmp_path), "-o", str(tmp_path / "m")],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "indexing" in shown and "━" in shown
    assert done.stdout.decode().startswith(f"{tmp_path / 'm'}: ") and b"\x1b" not in done.stdout
    assert config.exists()


def test_a_table_cell_is_no_markup() -> None:
    console = Terminal()
    assert console.render_str(EVIL).plain == SHOWN
    assert logging.getLogger("penstock").level == logging.NOTSET
