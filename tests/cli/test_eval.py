"""``penstock eval build``: sources as they are typed, and what is shown."""

import json
from pathlib import Path

import datasets
import pytest

from tests.cli.commands import complaint, run
from tests.curate.speech.evaluations import files_of, samples_in, write_folders
from tests.curate.speech.test_evaluation_hubdata import fleurs_rows, librispeech_rows, split_folders


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_folders(tmp_path / "clips", clips=4)


def languages(out: Path) -> dict[str, int]:
    index = json.loads((out / "index.json").read_text())
    return {name: one["count"] for name, one in index["languages"].items()}


def test_folders_shards_and_single_languages_are_told_apart(corpus: Path, tmp_path: Path) -> None:
    result = run("eval", "build", tmp_path / "one", "--source", corpus, "--samples", 3)
    assert result.exit_code == 0, result.output
    assert languages(tmp_path / "one") == {"hindi": 3, "odia": 3}
    result = run(
        "eval", "build", tmp_path / "two", "--source", tmp_path / "one", "--source", f"oriya={corpus / 'odia'}"
    )
    assert result.exit_code == 0, result.output
    assert languages(tmp_path / "two") == {"hindi": 3, "odia": 3, "oriya": 4}
    again, before = (samples_in(tmp_path / out / "hindi_eval.tar") for out in ("two", "one"))
    assert {name: wav for name, (wav, _) in again.items()} == {name: wav for name, (wav, _) in before.items()}
    one = run("eval", "build", tmp_path / "three", "--source", f"tamil={tmp_path / 'one' / 'odia_eval.tar'}")
    assert one.exit_code == 0, one.output
    assert languages(tmp_path / "three") == {"tamil": 3}


def test_what_was_built_what_is_unchanged_and_what_is_missing_is_shown(corpus: Path, tmp_path: Path) -> None:
    bad = corpus / "odia" / "speaker0" / "clip0.wav"
    bad.write_bytes(b"RIFF")
    first = run("eval", "build", tmp_path / "out", "--source", corpus)
    assert "odia: only 3 of the 500 requested samples; its sources have no more" in first.stdout
    assert "odia: left out clips: odia/speaker0/clip0.wav: " in first.stdout
    assert first.stdout.count(" built ") == 2
    second = run("eval", "build", tmp_path / "out", "--source", corpus)
    assert second.stdout.count("unchanged") == 2


def test_a_bucket_is_built_in_pulled_and_is_what_a_folder_gets(corpus: Path, tmp_path: Path, s3, monkeypatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.server.url)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert run("eval", "build", f"{s3.url}/evaluation/", "--source", corpus).exit_code == 0
    assert run("eval", "build", tmp_path / "local", "--source", corpus).exit_code == 0
    result = run("pull", f"{s3.url}/evaluation/", tmp_path / "pulled")
    assert result.exit_code == 0, result.output
    assert f"{tmp_path / 'pulled'}: 5 files, " in result.stdout
    assert files_of(tmp_path / "pulled") == files_of(tmp_path / "local")


def test_known_datasets_are_found_in_local_copies(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    for code in ("hi_in", "te_in"):
        split_folders(tmp_path / "fleurs" / code, {"test": fleurs_rows(code, 3), "validation": fleurs_rows(code, 2, 9)})
    split_folders(tmp_path / "libri" / "clean", {"test": librispeech_rows()})
    sources = [
        f"fleurs:hi_in@{tmp_path / 'fleurs'}",
        f"fleurs:te_in:test+validation@{tmp_path / 'fleurs'}",
        f"librispeech@{tmp_path / 'libri'}",
        f"tamil=datasets:te_in:validation@{tmp_path / 'fleurs'}",
    ]
    result = run("eval", "build", tmp_path / "out", *(word for source in sources for word in ("--source", source)))
    assert result.exit_code == 0, result.output
    assert languages(tmp_path / "out") == {"english": 4, "hindi": 3, "tamil": 2, "telugu": 5}


def test_sources_that_cannot_be_used_are_one_line(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "no such folder, tar or dataset" in complaint(run("eval", "build", out, "--source", tmp_path / "none"))
    assert "no tar shards here" in complaint(run("eval", "build", out, "--source", tmp_path / "none.tar"))
    assert "name the dataset" in complaint(run("eval", "build", out, "--source", "datasets:te_in"))
    assert "is listed twice" in complaint(run("eval", "build", out, "--source", corpus, "--source", corpus))
    assert "is not a store" in complaint(run("eval", "build", "ftp://host/x", "--source", corpus))
    assert "cannot be written" in complaint(run("eval", "build", "hf://datasets/a/b", "--source", corpus))
    assert "cannot be written" in complaint(run("eval", "build", "http://127.0.0.1:9/x", "--source", corpus))
    assert not list(out.glob("*.tar"))
