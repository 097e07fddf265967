"""``penstock where``: when items come, and what it says of those that never do."""

import json
from pathlib import Path

import pytest

import penstock
from tests.cli.commands import complaint, config_of, lines_of, run
from tests.shards import write_shard


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A run in which two shards have a sample of the same id."""
    config = config_of(tmp_path)
    for shard in ("bengali-0", "gujarati-0"):
        write_shard(tmp_path / f"{shard}.tar", {"twin": b""})
        with open(tmp_path / "train.tsv", "a") as filelist:
            filelist.write(f"{shard}.tar\ttwin\t{shard.split('-')[0]}\t1.5\n")
    for shard in tmp_path.glob("*.tar"):
        shard.unlink()  # no data is read
    return config


def test_its_lines_and_those_of_the_plan_agree(config: Path) -> None:
    uses = [line.split("\t") for line in lines_of(run("where", config, "assamese_1_3", "--epochs", "3"))]
    assert [use[:2] for use in uses] == [["assamese-1.tar:assamese_1_3", str(epoch)] for epoch in range(3)]
    for _, epoch, step, rank, slot in uses:
        planned = [line.split("\t") for line in lines_of(run("plan", config, "--steps", step))]
        assert planned[int(slot)] == [step, rank, slot, "assamese", epoch, "assamese-1.tar", "assamese_1_3"]


def test_a_header_names_the_columns(config: Path) -> None:
    header = run("where", config, "assamese_1_3").stdout.splitlines()[0]
    assert header.split("\t") == ["item", "epoch", "step", "rank", "slot"]


def test_ranks_agree_too(config: Path) -> None:
    (line,) = run("where", config, "bengali_1_2", "--world", "3", "--json").stdout.splitlines()
    use = json.loads(line)
    assert list(use) == ["item", "epoch", "step", "rank", "slot"]
    planned = run("plan", config, "--steps", use["step"], "--rank", use["rank"], "--world", "3", "--json").stdout
    assert json.loads(planned.splitlines()[use["slot"]])["item"] == "bengali_1_2"


def test_an_id_that_repeats_lists_every_match_and_its_shard_tells_them_apart(config: Path) -> None:
    both = [line.split("\t")[0] for line in lines_of(run("where", config, "twin"))]
    assert sorted(both) == ["bengali-0.tar:twin", "gujarati-0.tar:twin"]
    alone = [line.split("\t")[0] for line in lines_of(run("where", config, "gujarati-0.tar:twin"))]
    assert alone == ["gujarati-0.tar:twin"]


def test_what_is_missing_is_named_and_the_rest_is_shown(config: Path) -> None:
    result = run("where", config, "nobody", "twin", "bengali-1.tar:twin", "assamese_0_0")
    said, example = complaint(result).split("; items have names such as ")
    assert said == "no source has an item with this name: nobody, bengali-1.tar:twin"
    assert lines_of(run("where", config, example))[0].startswith(example)
    assert len(lines_of(result)) == 3


def test_after_a_change_of_the_batch_size_a_state_tells_the_steps(config: Path) -> None:
    feed = penstock.open(config, rank=0, world=1)
    state = config.parent / "state.json"
    state.write_text(json.dumps(feed.state(1)))
    config.write_text(config.read_text().replace("global_batch_size: 12", "global_batch_size: 3"))
    lines = lines_of(run("where", config, "assamese_1_3", "--epochs", "2", "--state", state))
    for _, epoch, step, rank, slot in (line.split("\t") for line in lines):
        planned = lines_of(run("plan", config, "--steps", step, "--state", state))
        assert planned[int(slot)].split("\t") == [step, rank, slot, "assamese", epoch, "assamese-1.tar", "assamese_1_3"]
    assert lines != lines_of(run("where", config, "assamese_1_3", "--epochs", "2"))


def test_a_ledger_tells_what_became_of_planned_uses(tmp_path: Path) -> None:
    config, log = config_of(tmp_path, max_bad=1, pool=1, usage={"log": "usage.jsonl"}), tmp_path / "usage.jsonl"
    with open(tmp_path / "train.tsv", "a") as filelist:
        filelist.write("bengali-0.tar\tlost\tbengali\t1.5\n")  # no such sample in the shard
    with penstock.open(config, rank=0, world=1).loader(threads=0) as loader:
        batches = [next(loader) for _ in range(3)]
    ((step, slot),) = ((batch["step"], bad.slot) for batch in batches for bad in batch["bad"])
    found = lines_of(run("where", config, "lost", "--epochs", "2", "--ledger", log))
    assert found[0].split("\t") == ["bengali-0.tar:lost", "0", str(step), "0", str(slot), "bad"]
    assert found[1].endswith("planned")
    taken = batches[step]["ids"][slot]
    uses = [json.loads(line) for line in run("where", config, taken, "--ledger", log, "--json").stdout.splitlines()]
    assert sorted(use["outcome"] for use in uses) == ["substitute", "used"]
    assert [use["step"] for use in uses] == sorted(use["step"] for use in uses)
    assert "another run" in complaint(run("where", config_of(tmp_path, seed=9), taken, "--ledger", log))
