"""Receipts of all recipes: how well each knows the content of its samples, and that other content is found."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.observe.receipt import Receipt, read_receipt, subtree_steps
from tests.cli.commands import complaint, lines_of, run
from tests.conftest import S3Prefix
from tests.e2e.chat_run import chat_run, copy_files, source
from tests.robots import ROWS, edit_table, write_robot
from tests.shards import content, damage, write_shards

STEPS = "0:20"


def succeed(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def written(folder: Path, options: dict[str, Any]) -> Path:
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump({"cache": {"dir": "cache", "size": "1GB"}, **options}))
    return path


def receipt_of(config: Path, name: str) -> Receipt:
    path = config.with_name(name)
    succeed("receipt", config, "--steps", STEPS, "-o", path)
    assert f"all {STEPS[2:]} steps agree" in succeed("verify", path)
    return read_receipt(path)


def kinds(receipt: Receipt) -> set[str]:
    return {each.content for each in receipt.sources}


def steps_of(config: Path, item: str) -> set[int]:
    """The steps of a receipt that use an item."""
    uses = [line.split("\t") for line in lines_of(run("where", config, item, "--epochs", 99))]
    return {int(use[2]) for use in uses} & set(range(20))


def wrong_steps(config: Path, receipt: Path) -> set[int]:
    """The steps that ``verify`` names. A subtree of 20 steps has one."""
    result = run("verify", receipt, config)
    assert result.exit_code == 1, result.output
    lines = [line.split(":")[0] for line in result.output.splitlines() if line.startswith("✗ step ")]
    return {int(line.removeprefix("✗ step ")) for line in lines}


def test_checksums_of_tar_members_find_one_other_byte(tmp_path: Path) -> None:
    write_shards(tmp_path)
    options = {"manifest": "index", "store": ".", "mixture": {"weights": "equal"}, "global_batch_size": 3}
    config = written(tmp_path, options)
    index = ("index", tmp_path, "-o", tmp_path / "index", "--store", tmp_path, "--filelist", tmp_path / "train.tsv")
    succeed(*index)
    assert kinds(receipt_of(config, "crc.receipt")) == {"crc32"}
    succeed(*index, "--sha256")
    assert kinds(receipt_of(config, "sha.receipt")) == {"sha256"}
    assert "✓" in succeed("verify", tmp_path / "crc.receipt"), "a weaker receipt is checked as it was made"
    damage(tmp_path / "bengali-0.tar", content("bengali-0.tar", "bengali_0_1"))
    succeed(*index, "--sha256")
    expected = steps_of(config, "bengali-0.tar:bengali_0_1")
    assert expected and wrong_steps(config, tmp_path / "sha.receipt") == expected
    assert wrong_steps(config, tmp_path / "crc.receipt") == expected
    succeed(*index)
    said = complaint(run("verify", tmp_path / "sha.receipt", config))
    assert "the receipt has SHA-256 of the content, and the index here does not" in said


def test_a_filelist_without_an_index_knows_ids_only(tmp_path: Path) -> None:
    write_shards(tmp_path)
    config = written(tmp_path, {"filelist": "train.tsv", "store": ".", "global_batch_size": 3})
    assert kinds(receipt_of(config, "run.receipt")) == {"ids"}
    assert "penstock index --sha256" in succeed("receipt", config, "--steps", 3, "-o", tmp_path / "other.receipt")


def write_talks(path: Path, changed: Sequence[int] = ()) -> None:
    """Write records of which all but the first and last mebibyte can change without another fingerprint."""
    talks = [[{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": "ok"}] for n in range(80)]
    for number in changed:
        talks[number][1]["content"] = "no"
    path.write_text("".join(json.dumps({"messages": talk, "unused": "x" * 40_000}) + "\n" for talk in talks))


def test_hashes_of_chat_records_find_one_other_word(tmp_path: Path) -> None:
    copy_files(tmp_path)
    write_talks(tmp_path / "talks.jsonl")
    talks = {"name": "talks", "dtype": "conversation", "path": str(tmp_path / "talks.jsonl")}
    config = written(tmp_path, chat_run(tmp_path, [talks, source("v1_sft_demo.jsonl", tmp_path)]))
    assert kinds(receipt_of(config, "ids.receipt")) == {"ids"}
    succeed("index", config, "--sha256", "--workers", 0)
    assert kinds(receipt_of(config, "sha.receipt")) == {"sha256"}
    write_talks(tmp_path / "talks.jsonl", changed=[40])
    succeed("index", config, "--sha256", "--workers", 0)
    assert wrong_steps(config, tmp_path / "sha.receipt") == steps_of(config, "talks.jsonl:40") != set()
    assert "✓" in succeed("verify", tmp_path / "ids.receipt"), "ids have not changed"


def test_packs_have_the_hashes_of_their_members(tmp_path: Path) -> None:
    copy_files(tmp_path)
    sources = [source("v1_sft_demo.jsonl", tmp_path), source("alpaca_en_demo.json", tmp_path)]
    config = written(tmp_path, chat_run(tmp_path, sources, chat={"pack": True, "max_length": 2048}))
    succeed("index", config, "--workers", 0)
    weak = receipt_of(config, "ids.receipt")
    succeed("index", config, "--sha256", "--workers", 0)
    strong = receipt_of(config, "sha.receipt")
    assert (kinds(weak), kinds(strong)) == ({"ids"}, {"sha256"}) and weak.root != strong.root


def test_hashes_of_episodes_find_one_other_value(tmp_path: Path) -> None:
    write_robot(tmp_path / "robot", [6, 7, 5], ["top"])
    config = written(tmp_path, {"recipe": "robot", "store": "robot", "global_batch_size": 2})
    assert kinds(receipt_of(config, "ids.receipt")) == {"ids"}
    succeed("index", config, "--sha256", "--workers", 0)
    receipt_of(config, "sha.receipt")
    edit_table(tmp_path / "robot", ROWS, {"action": {3: [9.0, 9.0, 9.0]}})
    assert "the index here does not" in complaint(run("verify", tmp_path / "sha.receipt", config))
    succeed("index", config, "--sha256", "--workers", 0)
    assert wrong_steps(config, tmp_path / "sha.receipt")
    assert "✓" in succeed("verify", tmp_path / "ids.receipt")


def test_several_recipes_are_in_one_receipt(tmp_path: Path) -> None:
    copy_files(tmp_path)
    write_robot(tmp_path / "robot", [6, 7, 5])
    write_shards(tmp_path)
    sources = [
        {**source("v1_sft_demo.jsonl", tmp_path), "recipe": "chat"},
        {"name": "arm", "recipe": "robot", "store": "robot"},
        {"name": "shards", "recipe": "raw", "filelist": "train.tsv", "store": "."},
    ]
    options = chat_run(tmp_path, sources, mixture={"weights": "equal"}, global_batch_size=10)
    del options["recipe"]
    found = receipt_of(written(tmp_path, options), "run.receipt")
    assert {each.name.split("/")[0] for each in found.sources} == {"v1_sft_demo", "arm", "shards"}
    assert len(subtree_steps(found.step_range())) == 20


@pytest.mark.long
def test_files_in_a_bucket_are_known_by_their_etags(tmp_path: Path, s3: S3Prefix) -> None:
    copy_files(tmp_path)
    write_robot(tmp_path / "robot", [6, 7, 5], ["top"])
    for path in (tmp_path / "robot").rglob("*.*"):
        s3.put(f"robot/{path.relative_to(tmp_path / 'robot')}", path.read_bytes())
    s3.put("talks.jsonl", (tmp_path / "v1_sft_demo.jsonl").read_bytes())
    remote = {"endpoint": s3.options.endpoint, "region": s3.options.region}
    sources = [
        {"name": "talks", "recipe": "chat", "dtype": "conversation", "path": f"{s3.url}/talks.jsonl", "remote": remote},
        {"name": "arm", "recipe": "robot", "store": f"{s3.url}/robot", "remote": remote},
    ]
    options = chat_run(tmp_path, sources, mixture={"weights": "equal"})
    del options["recipe"]
    config = written(tmp_path, options)
    weak = receipt_of(config, "etag.receipt")
    assert kinds(weak) == {"version"}
    succeed("index", config, "--sha256", "--workers", 0)
    assert kinds(receipt_of(config, "sha.receipt")) == {"sha256"}
    assert "✓" in succeed("verify", tmp_path / "etag.receipt")
    edit_table(tmp_path / "robot", ROWS, {"action": {3: [9.0, 9.0, 9.0]}})
    s3.put(f"robot/{ROWS}", (tmp_path / "robot" / ROWS).read_bytes())
    assert wrong_steps(config, tmp_path / "etag.receipt")
