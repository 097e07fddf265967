"""``penstock eval build`` by processes, by jobs of an array and on a real Ray cluster: the same bytes."""

from pathlib import Path

import pytest

from tests.cli.commands import complaint, run
from tests.curate.speech.corpora import corpus
from tests.curate.speech.evaluations import files_of, write_folders
from tests.runtime.engines.clusters import killed_worker, running_cluster


@pytest.fixture
def sources(tmp_path: Path) -> list[object]:
    """Tar shards, and a folder of clips."""
    corpus(tmp_path / "data", shards=6, clips=4)
    write_folders(tmp_path / "clips", clips=4)
    return ["--source", tmp_path / "data", "--source", f"tamil={tmp_path / 'clips'}", "--samples", 7]


def test_jobs_of_an_array_and_a_last_command_build_what_one_builds(sources: list[object], tmp_path: Path) -> None:
    assert run("eval", "build", tmp_path / "one", *sources, "--workers", 0).exit_code == 0
    for number in (1, 0):
        result = run("eval", "build", tmp_path / "two", *sources, "--shard", f"{number}/2")
        assert result.exit_code == 0, result.output
        assert f"job {number}/2 has read its share of 6 shards" in result.stdout
        assert "run the same command without --shard" in result.stdout
        assert not (tmp_path / "two").exists()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "two.clips").iterdir()}
    assert len(before) == 6
    assert run("eval", "build", tmp_path / "two", *sources, "--workers", 2).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "two.clips").iterdir()} == before
    assert files_of(tmp_path / "two") == files_of(tmp_path / "one")
    assert len(files_of(tmp_path / "two")) == 3 + 3


def test_shares_that_make_no_sense_are_one_sentence(sources: list[object], tmp_path: Path) -> None:
    build = ("eval", "build", tmp_path / "out")
    assert complaint(run(*build, *sources, "--shard", "2/2")).startswith("--shard 2/2: write i/n for job i of n")
    assert "build into a folder" in complaint(run("eval", "build", "s3://bucket/x", *sources, "--shard", "0/2"))
    said = complaint(run(*build, "--source", tmp_path / "clips", "--shard", "0/2"))
    assert said == "--shard: jobs share the reading of tar shards, and no --source has any; leave it out"
    assert complaint(run(*build, *sources, "--address", "127.0.0.1:6379")) == "--address: only for --engine ray"


@pytest.mark.scale
def test_ray_builds_what_this_process_builds_also_if_a_worker_is_killed(sources: list[object], tmp_path: Path) -> None:
    assert run("eval", "build", tmp_path / "one", *sources, "--workers", 0).exit_code == 0
    with running_cluster(), killed_worker():
        result = run("eval", "build", tmp_path / "two", *sources, "--engine", "ray")
    assert result.exit_code == 0, result.output
    assert files_of(tmp_path / "two") == files_of(tmp_path / "one")
