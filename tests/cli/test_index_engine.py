"""``penstock index`` of tar shards by processes and by jobs: the same bytes, whatever is killed."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.commands import SHELL, complaint, run, shell
from tests.shards import write_shards


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    write_shards(tmp_path / "data", {"hindi": [40] * 6, "tamil": [40] * 6}, bytes_each=20_000)
    return tmp_path / "data"


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def children(pid: int) -> list[int]:
    """Return the processes that make tasks; the resource tracker of multiprocessing is none."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(FileNotFoundError):
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
    return found


def test_jobs_of_an_array_and_a_last_command_make_the_index(data: Path, tmp_path: Path) -> None:
    assert run("index", data, "-o", tmp_path / "whole").exit_code == 0
    for number in (1, 0):
        result = run("index", data, "-o", tmp_path / "out", "--shard", f"{number}/2")
        assert result.exit_code == 0 and "run the same command without --shard" in result.stdout
        assert not (tmp_path / "out").exists()
    assert run("index", data, "-o", tmp_path / "out").exit_code == 0
    assert content_of(tmp_path / "out") == content_of(tmp_path / "whole")


def test_a_share_that_is_none_is_one_sentence(data: Path, tmp_path: Path) -> None:
    said = complaint(run("index", data, "-o", tmp_path / "out", "--shard", "2/2"))
    assert said == "--shard 2/2: write i/n for job i of n, from 0/n on: 0/8, 1/8 … 7/8"


@pytest.mark.scale
def test_processes_that_are_killed_change_nothing(data: Path, tmp_path: Path) -> None:
    assert run("index", data, "-o", tmp_path / "whole", "--workers", "0").exit_code == 0
    command = [*SHELL, "index", str(data), "-o", str(tmp_path / "out"), "--workers", "2", "--threads", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        while not children(running.pid):
            time.sleep(0.01)
        os.kill(children(running.pid)[0], signal.SIGKILL)
        _, errors = running.communicate(timeout=120)
    assert running.returncode == 0, errors
    assert content_of(tmp_path / "out") == content_of(tmp_path / "whole")


@pytest.mark.scale
def test_a_command_that_is_killed_anywhere_goes_on(data: Path, tmp_path: Path) -> None:
    assert run("index", data, "-o", tmp_path / "whole", "--workers", "0").exit_code == 0
    arguments = ("index", data, "-o", tmp_path / "out", "--workers", "2", "--threads", "1")
    kept = tmp_path / "out.shards"
    with subprocess.Popen([*SHELL, *map(str, arguments)], stderr=subprocess.DEVNULL) as running:
        while not kept.exists() or len(list(kept.glob("*.learnt"))) < 3:
            time.sleep(0.002)
        running.kill()
    before = {path.name: path.stat().st_mtime_ns for path in kept.glob("*.learnt")}
    assert shell(*arguments).returncode == 0
    assert content_of(tmp_path / "out") == content_of(tmp_path / "whole")
    assert {name: (kept / name).stat().st_mtime_ns for name in before} == before, "nothing is read twice"
