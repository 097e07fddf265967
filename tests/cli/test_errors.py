"""What a user meets when something is wrong: one line that says what to do, exit code 2, no traceback."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import SHELL, complaint, config_of, run, shell


@pytest.mark.parametrize("command", [["plan"], ["where", "x"], ["bench"]])
def test_a_bad_config_is_one_line_for_every_command(tmp_path: Path, command: list[str]) -> None:
    name, *rest = command
    assert complaint(run(name, tmp_path / "none.yaml", *rest)) == f"{tmp_path / 'none.yaml'}: no such file"
    config = config_of(tmp_path, sed=3)
    assert complaint(run(name, config, *rest)) == f"{config}: sed: unknown key; did you mean seed?"


def test_a_long_line_is_not_broken_and_brackets_are_not_lost(tmp_path: Path) -> None:
    folder = tmp_path / "[bold] [/] [0, 9]" / ("long" * 40)
    folder.mkdir(parents=True)
    config = config_of(folder, mixture=[{"at": 3}])
    said = complaint(run("plan", config))
    assert said == f"{config}: mixture: the `at` of a schedule must start at 0 and increase, not [3]"


def test_a_backslash_before_a_bracket_is_not_lost(tmp_path: Path) -> None:
    assert complaint(run("plan", tmp_path / "a\\[red]b.yaml")) == f"{tmp_path}/a\\[red]b.yaml: no such file"


def test_missing_data_names_the_shard(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"assamese": [5]})
    (tmp_path / "assamese-0.tar").unlink()
    for engine in (["--threads", "0"], ["--workers", "1"]):
        assert "assamese-0.tar" in complaint(run("bench", config, *engine))


def test_a_broken_filelist_names_its_lines(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    with open(tmp_path / "train.tsv", "a") as filelist:
        filelist.write("a.tar\tx\n")
    result = run("plan", config)
    assert result.exit_code == 2 and "train.tsv:37: 2 columns where 4 are needed" in result.stderr
    assert "Traceback" not in result.output


def test_too_many_bad_samples_are_one_line(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"assamese": [30]}, max_bad=0.01)
    with open(tmp_path / "train.tsv", "a") as filelist:
        filelist.writelines(f"assamese-0.tar\tmissing_{number}\tassamese\t1.5\n" for number in range(5))
    assert "more than max_bad: 0.01 allows" in complaint(run("bench", config))


def test_a_user_sees_the_same_from_the_shell(tmp_path: Path) -> None:
    done = shell("plan", tmp_path / "none.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {tmp_path}/none.yaml: no such file\n"


def test_a_reader_that_has_seen_enough_hears_no_complaint(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    plan = subprocess.Popen(
        [*SHELL, "plan", str(config), "--steps", "0:100000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert plan.stdout is not None and plan.stderr is not None
    assert plan.stdout.readline().startswith("step\trank\tslot\t")
    plan.stdout.close()
    assert plan.stderr.read() == ""
    assert plan.wait(60) == 0
    plan.stderr.close()


@pytest.mark.parametrize("package", ["soundfile", "soxr", "miniaudio"])
@pytest.mark.parametrize("command", ["filelist", "eval build"])
def test_a_package_that_a_command_needs_is_named_with_its_extra(tmp_path: Path, command: str, package: str) -> None:
    config_of(tmp_path)
    rest = ["-o", f"{tmp_path}/new.tsv", str(tmp_path)] if command == "filelist" else ["out", "--source", str(tmp_path)]
    script = f"import sys; sys.modules[{package!r}] = None; {SHELL[2]}"
    done = subprocess.run(
        [SHELL[0], "-c", script, *command.split(), *rest], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stderr == f"error: {command} needs {package}: pip install 'penstock[speech]'\n"
    assert done.returncode == 2 and not (tmp_path / "out").exists()


def test_a_folder_with_other_files_is_no_cache_and_stays_as_it_is(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    config.write_text(config.read_text().replace("store: .", "store: s3://bucket/shards"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "thesis.txt").write_text("mine")
    for command in ("plan", "bench", "mix"):
        said = complaint(run(command, config))
        assert "contains other files (thesis.txt); nothing in it was changed" in said
        assert [path.name for path in (tmp_path / "cache").rglob("*")] == ["thesis.txt"]


def test_no_arguments_show_the_commands() -> None:
    result = run()
    for command in ("demo", "index", "plan", "where", "bench"):
        assert command in result.output
