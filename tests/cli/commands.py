"""How the tests run commands: in this process, or as a user does where the process itself matters."""

import subprocess
import sys
from pathlib import Path

import yaml
from click.testing import Result
from typer.testing import CliRunner

from penstock.cli import app
from tests.shards import Sizes, small_run, write_shards

SHELL = [sys.executable, "-c", "from penstock.cli import app; app(prog_name='penstock')"]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="penstock")


def shell(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*SHELL, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)


def config_of(folder: Path, sizes: Sizes | None = None, **options: object) -> Path:
    """A YAML file of a run over small shards, which are written beside it."""
    write_shards(folder, **({} if sizes is None else {"sizes": sizes}))
    path = folder / "run.yaml"
    plain = small_run(folder, **{"global_batch_size": 12, **options})
    own = {"filelist": "train.tsv", "store": ".", "cache": {"dir": "cache", "size": "1GB"}}
    path.write_text(yaml.safe_dump({**plain, **own}))
    return path


def lines_of(result: Result) -> list[str]:
    """The lines of a command that prints rows, without their header."""
    header, *lines = result.stdout.splitlines()
    names = header.split("\t")
    assert "step" in names and all(len(line.split("\t")) == len(names) for line in lines)
    return lines


def complaint(result: Result) -> str:
    """The one line of an error that a user can act on."""
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")
