"""``penstock replay``: what was in a batch, byte for byte and sample for sample, as files."""

import json
import tarfile
import wave
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import penstock
from tests.cli.commands import complaint, config_of, run
from tests.smalldisk import fill, small_disk

SPEECH = Path(__file__).parent.parent / "data" / "speech"


def about(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "batch.json").read_text())
    assert {name for sample in found["samples"] for name in sample["files"]} == {
        path.name for path in folder.iterdir() if path.name != "batch.json"
    }
    return found


def test_records_are_written_as_they_are_stored_and_the_ledger_stays_as_it_is(tmp_path: Path) -> None:
    config = config_of(tmp_path, usage={"log": "usage.jsonl", "every": 1})
    result = run("replay", config, "--steps", "7:9", "--world", "3", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 6 and "4 samples" in result.stdout
    feed = penstock.open(config, rank=0, world=1)
    for step in (7, 8):
        for rank in range(3):
            folder, batch = tmp_path / "out" / f"step-{step}" / f"rank-{rank}", feed.batch(step, rank, 3)
            told = about(folder)
            assert (told["step"], told["rank"], told["world"], told["bad"]) == (step, rank, 3, [])
            assert [sample["source"] for sample in told["samples"]] == batch["sources"]
            for sample, record, line in zip(told["samples"], batch["records"], feed.lines(step, rank, 3), strict=True):
                assert (sample["slot"], sample["item"]) == (line.slot, f"{line.group}:{line.item}")
                assert [(folder / name).read_bytes() for name in sample["files"]] == list(record.values())
    assert not (tmp_path / "usage.jsonl").exists()


def test_crops_are_written_as_they_were_fed_with_what_stood_in_for_bad_clips(tmp_path: Path) -> None:
    (tmp_path / "broken.wav").write_bytes(b"no audio")
    clips = [tmp_path / "broken.wav", *(clip for clip in sorted(SPEECH.iterdir()) if clip.stem != "stereo")]
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        for clip in clips:
            tar.add(clip, clip.name)
    (tmp_path / "train.tsv").write_text("".join(f"shard.tar\t{clip.stem}\tenglish\t5.0\n" for clip in clips))
    own = {"filelist": "train.tsv", "store": ".", "cache": {"dir": "cache", "size": "1GB"}, "speech": {"crop": "2s"}}
    config = tmp_path / "run.yaml"
    config.write_text(yaml.safe_dump({"recipe": "speech", "global_batch_size": len(clips), **own}))
    result = run("replay", config, "--steps", "3", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    folder, batch = tmp_path / "out" / "step-3" / "rank-0", penstock.open(config, rank=0, world=1).batch(3)
    told = about(folder)
    assert [bad["id"] for bad in told["bad"]] == ["broken"]
    assert [sample["item"] for sample in told["samples"]] == [f"shard.tar:{name}" for name in batch["ids"]]
    for sample, fed, length in zip(told["samples"], batch["wav"].numpy(), batch["length"].tolist(), strict=True):
        with wave.open(str(folder / sample["files"][0])) as heard:
            assert (heard.getframerate(), heard.getnchannels(), heard.getnframes()) == (16_000, 1, length)
            frames = np.frombuffer(heard.readframes(length), "<i2") / 32_768
        assert np.abs(frames - np.clip(fed[:length], -1, 32_767 / 32_768)).max() <= 0.5 / 32_768


def test_padding_leaves_no_file_and_long_or_odd_ids_find_a_name(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"assamese": [2]}, passes=1, global_batch_size=5)
    odd = "অসমীয়া/" * 40 + "x"
    with tarfile.open(tmp_path / "assamese-0.tar", "w") as tar:
        tar.add(config, f"{odd}.txt")
    (tmp_path / "train.tsv").write_text(f"assamese-0.tar\t{odd}\tassamese\t1.5\n")
    assert run("replay", config, "--steps", "0", "-o", tmp_path / "out").exit_code == 0
    folder = tmp_path / "out" / "step-0" / "rank-0"
    (sample,) = about(folder)["samples"]
    assert sample["item"] == f"assamese-0.tar:{odd}"
    assert (folder / sample["files"][0]).read_bytes() == config.read_bytes()


def test_a_second_replay_replaces_the_folder_of_its_step_and_rank(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    out = tmp_path / "out"
    for seed in (1, 2):
        options = {**yaml.safe_load(config.read_text()), "seed": seed}
        config.write_text(yaml.safe_dump(options))
        assert run("replay", config, "--steps", "3", "-o", out).exit_code == 0
        told = about(out / "step-3" / "rank-0")  # it has the files that it names, and no others
        batch = penstock.open(config, rank=0, world=1).batch(3)
        assert [sample["item"].split(":")[1] for sample in told["samples"]] == batch["ids"]
    assert run("replay", config, "--steps", "4", "-o", out).exit_code == 0
    assert (out / "step-3" / "rank-0" / "batch.json").exists(), "other steps stay"


def test_what_file_systems_or_terminals_refuse_of_an_id_is_not_in_the_name_of_a_file(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"assamese": [2]}, passes=1, global_batch_size=1)
    odd = "a\x1b[31m\u202e3:7?b"
    with tarfile.open(tmp_path / "assamese-0.tar", "w") as tar:
        tar.add(config, f"{odd}.txt")
    (tmp_path / "train.tsv").write_text(f"assamese-0.tar\t{odd}\tassamese\t1.5\n")
    assert run("replay", config, "--steps", "0", "-o", tmp_path / "out").exit_code == 0
    (sample,) = about(tmp_path / "out" / "step-0" / "rank-0")["samples"]
    assert sample["item"] == f"assamese-0.tar:{odd}" and sample["files"] == ["0000-a_[31m_3_7_b.txt"]


def test_a_state_tells_the_batch_size_that_the_step_had(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    state = tmp_path / "state.json"
    state.write_text(json.dumps(penstock.open(config, rank=0, world=1).state(5)))
    config.write_text(config.read_text().replace("global_batch_size: 12", "global_batch_size: 3"))
    result = run("replay", config, "--steps", "4:6", "--state", state, "-o", tmp_path / "out")
    assert [line.split(": ")[1] for line in result.stdout.splitlines()] == ["12 samples", "3 samples"]


def test_a_step_that_is_not_there_is_told(tmp_path: Path) -> None:
    config = config_of(tmp_path, passes=1)
    assert "the run has 3 steps" in complaint(run("replay", config, "--steps", "9", "-o", tmp_path / "out"))


def test_a_state_that_is_not_json_is_told_in_plain_words(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    state = tmp_path / "state.json"
    for content, line in ((b"", " (line 1)"), (b'{"step": 3,\n oops}', " (line 2)"), (b"PK\xff\xfe", "")):
        state.write_bytes(content)
        told = complaint(run("replay", config, "--steps", "3", "--state", state, "-o", tmp_path / "out"))
        assert told.startswith(f"{state}: not valid JSON{line}; expected a state that was saved with json.dump")


def test_a_full_disk_is_told_with_the_file_that_did_not_fit(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        fill(disk)
        told = complaint(run("replay", config, "--steps", "3", "-o", disk / "out"))
        assert told.startswith(f"{disk / 'out' / 'step-3'}") and told.endswith(": no space left on device")
        told = complaint(run("demo", "--dir", disk / "demo"))
        assert told == f"{disk / 'demo' / 'english' / 'shard-000000.tar'}: no space left on device"
