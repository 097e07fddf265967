import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import penstock
from penstock.cli import app
from penstock.readers.tar.manifest import TarManifest
from tests.curate.speech.corpora import corpus, files, tone, wav
from tests.readers.tar.archives import write_tar


def run(*arguments: object, **environment: str) -> Result:
    return CliRunner().invoke(app, ["filelist", *map(str, arguments)], env={"COLUMNS": "200", **environment})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    corpus(tmp_path / "data")
    return tmp_path / "data"


def test_one_command_makes_filelist_manifest_held_out_part_and_report(data, tmp_path):
    lists = tmp_path / "data" / "filelists"
    done = run(
        *(data, "-o", lists / "train.tsv", "--workers", 1, "--seconds", "2:5", "--max-clipping", 0.01),
        *("--max-silence", 0.9, "--min-snr", 10, "--language", "hindi", "--language", "odia"),
        *("--where", "dnsmos >= 1.5", "--where", "speaker in S0, S1, S2", "--hold-out", "40%"),
        *("--held-out-to", lists / "valid.tsv"),
    )
    assert done.exit_code == 0, done.output
    train, valid = (TarManifest(lists / f"{name}.manifest") for name in ("train", "valid"))
    assert len(train) + len(valid) == 4 * 4 and len(valid) > 0
    assert "hindi" in done.output and "shorter than 2 s" in done.output and "longer than 5 s" in done.output
    report = json.loads((lists / "train.report.json").read_text())
    assert sum(part["clips"] for part in report["kept"].values()) == len(train)


def test_what_it_wrote_can_be_trained_on(data, tmp_path):
    out = tmp_path / "train.tsv"
    assert run(data, "-o", out, "--workers", 1).exit_code == 0
    common = {"store": str(data), "recipe": "raw", "global_batch_size": 4, "pool": 2, "mixture": {"weights": "equal"}}
    cache = {"dir": tmp_path / "cache", "size": "1GB"}
    listed = penstock.open({**common, "filelist": out, "cache": cache}, rank=0, world=1)
    indexed = penstock.open({**common, "manifest": tmp_path / "train.manifest", "cache": cache}, rank=0, world=1)
    assert listed.state(3) == indexed.state(3)
    assert listed[7]["ids"] == indexed[7]["ids"]


def test_a_language_that_no_clip_has_is_told(data, tmp_path):
    done = run(data, "-o", tmp_path / "train.tsv", "--workers", 1, "--language", "hindi", "--language", "odiya")
    assert done.exit_code == 0, done.output
    assert "--language odiya: no clip has this language; did you mean odia?" in done.output
    assert "--language hindi" not in done.output


def test_languages_that_no_clip_has_are_told_when_nothing_is_left(data, tmp_path):
    done = run(data, "-o", tmp_path / "train.tsv", "--workers", 1, "--language", "hindii")
    assert done.exit_code == 2
    assert done.stderr == "error: no clip is left: none has the language hindii; did you mean hindi?\n"


def test_names_to_hold_out_come_from_files_and_those_not_found_are_told(data, tmp_path):
    (tmp_path / "speakers").write_text("S1\nS77\n")
    (tmp_path / "ids").write_text("hindi/shard-000000.tar:s0_0\n")
    chosen = ("--hold-out-speakers", tmp_path / "speakers", "--hold-out-ids", tmp_path / "ids")
    done = run(data, "-o", tmp_path / "train.tsv", "--workers", 1, *chosen, "--held-out-to", tmp_path / "valid.tsv")
    assert done.exit_code == 0, done.output
    assert "1 names to hold out have no clip that passed the rules: S77" in done.output
    valid = (tmp_path / "valid.tsv").read_text()
    assert "\ts0_0\t" in valid and "\ts2_0\t" not in valid and len(valid.splitlines()) == 1 + 4 * 2


def test_broken_shards_stop_it_unless_they_are_to_be_skipped(data, tmp_path):
    (data / "odia" / "x.tar").write_bytes(b"no tar " * 1000)
    stopped = run(data, "-o", tmp_path / "train.tsv", "--workers", 1)
    assert stopped.exit_code == 2 and "odia/x.tar" in stopped.output and "Traceback" not in stopped.output
    done = run(data, "-o", tmp_path / "train.tsv", "--workers", 1, "--skip-broken")
    assert done.exit_code == 0 and "skipped, broken: odia/x.tar" in done.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--seconds", "20"], "write 1:20"),
        (["--seconds", ".:3"], "write 1:20"),
        (["--seconds", "5:2"], "lower bound first"),
        (["--hold-out", "3"], "such as 1%"),
        (["--held-out-to", "valid.tsv"], "nothing is held out"),
        (["--where", "dnsmos"], "is not a comparison"),
        (["--where", "dnsmoss > 3"], "did you mean dnsmos?"),
        (["--max-silence", "30"], "must be between 0 and 1, not 30"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_sentence(data, tmp_path, arguments, told):
    failed = run(data, "-o", tmp_path / "train.tsv", "--workers", 1, *arguments)
    assert failed.exit_code == 2 and told in failed.output and "Traceback" not in failed.output


def test_names_that_look_like_markup_are_shown_as_they_are(tmp_path):
    write_tar(tmp_path / "data/[red]/a.tar", [*files("good", wav(tone(2))), *files("[bold]", b"no audio")])
    done = run(tmp_path / "data", "-o", tmp_path / "train.tsv", "--workers", 1)
    assert done.exit_code == 0 and "[red]/a.tar:[bold]" in done.output


def test_shards_of_a_bucket_are_named_by_a_prefix(data, tmp_path, s3):
    for path in data.rglob("*.tar"):
        s3.put(path.relative_to(data).as_posix(), path.read_bytes())
    place = {"AWS_ENDPOINT_URL": s3.server.url, "AWS_REGION": "us-east-1", **os.environ}
    remote = run(f"{s3.url}/hindi", "--store", s3.url, "-o", tmp_path / "remote.tsv", "--workers", 1, **place)
    assert remote.exit_code == 0, remote.output
    assert run(data / "hindi", "--store", data, "-o", tmp_path / "local.tsv", "--workers", 1).exit_code == 0
    assert (tmp_path / "remote.tsv").read_text() == (tmp_path / "local.tsv").read_text()


def test_clips_that_no_filelist_can_hold_are_dropped_and_the_rest_is_written(tmp_path):
    clip = wav(tone(2))
    members = [*files("good", clip), *files("twice", clip), *files("twice", clip)]
    members += [("deep.wav", clip), ("deep.json", b"[" * 100_000)]
    members += [("long.wav", clip), ("long.json", b'{"duration": 1' + b"0" * 400 + b"}")]
    write_tar(tmp_path / "data" / "hindi" / "0.tar", members)
    done = run(tmp_path / "data", "-o", tmp_path / "train.tsv", "--workers", 1, "--where", "a == b")
    assert done.exit_code == 2 and "no clip's .json has a field" in done.output
    done = run(tmp_path / "data", "-o", tmp_path / "train.tsv", "--workers", 1)
    assert done.exit_code == 0, done.output
    assert [line.split("\t")[1] for line in (tmp_path / "train.tsv").read_text().splitlines()] == ["good"]
    dropped = json.loads((tmp_path / "train.report.json").read_text())["dropped"]
    assert {rule: sum(count["clips"] for count in found["languages"].values()) for rule, found in dropped.items()} == {
        "unusable name": 2,
        "unusable json": 2,
    }
