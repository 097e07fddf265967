"""``penstock filelist`` by processes, by jobs of an array and on a real Ray cluster: the same bytes."""

from pathlib import Path

import pytest

from tests.cli.commands import complaint, run
from tests.curate.speech.corpora import corpus
from tests.runtime.engines.clusters import killed_worker, running_cluster


@pytest.fixture
def data(tmp_path: Path) -> Path:
    corpus(tmp_path / "data", shards=6, clips=4)
    return tmp_path / "data"


def content_of(folder: Path) -> dict[str, bytes]:
    """What a command has written into a folder, without locks."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_jobs_of_an_array_and_a_last_command_write_the_filelist_of_one(data: Path, tmp_path: Path) -> None:
    rules = ("--seconds", "1.5:", "--hold-out", "40%", "--held-out-to")
    assert run("filelist", data, "-o", tmp_path / "one/train.tsv", *rules, tmp_path / "one/valid.tsv").exit_code == 0
    arguments = ("filelist", data, "-o", tmp_path / "two/train.tsv", *rules, tmp_path / "two/valid.tsv")
    for number in (1, 0):
        result = run(*arguments, "--shard", f"{number}/2", "--workers", number)
        assert result.exit_code == 0, result.output
        assert f"job {number}/2 has measured its share of 6 shards" in result.stdout
        assert "run the same command without --shard" in result.stdout
        assert [path.name for path in (tmp_path / "two").iterdir()] == ["train.measured"]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "two/train.measured").glob("*.learnt")}
    assert len(before) == 6
    assert run(*arguments, "--workers", 2).exit_code == 0
    assert content_of(tmp_path / "two") == content_of(tmp_path / "one")
    assert {path: path.stat().st_mtime_ns for path in before} == before, "nothing is measured twice"


def test_a_share_that_is_none_and_an_address_without_ray_are_one_sentence(data: Path, tmp_path: Path) -> None:
    arguments = ("filelist", data, "-o", tmp_path / "train.tsv")
    assert complaint(run(*arguments, "--shard", "2/2")).startswith("--shard 2/2: write i/n for job i of n")
    assert complaint(run(*arguments, "--address", "127.0.0.1:6379")) == "--address: only for --engine ray"


@pytest.mark.scale
def test_ray_writes_the_filelist_of_this_process_also_if_a_worker_is_killed(data: Path, tmp_path: Path) -> None:
    assert run("filelist", data, "-o", tmp_path / "one/train.tsv", "--workers", 0).exit_code == 0
    with running_cluster(), killed_worker():
        result = run("filelist", data, "-o", tmp_path / "two/train.tsv", "--engine", "ray")
    assert result.exit_code == 0, result.output
    assert content_of(tmp_path / "two") == content_of(tmp_path / "one")
