"""``penstock forget``: steps, the clean checkpoint, the config that it writes, and what it refuses."""

import json
import sys
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock
from penstock.cli.forget import _ranges
from tests.cli.commands import config_of, run
from tests.shards import Sizes

SIZES: Sizes = {"bengali": [6, 5, 4], "hindi": [9, 4]}
STEPS = 12


@pytest.fixture
def ran(tmp_path: Path) -> tuple[Path, Path]:
    """A run of some steps, with its ledger, and a state after every second step."""
    log = tmp_path / "usage.jsonl"
    config = config_of(tmp_path, SIZES, global_batch_size=2, pool=2, usage={"log": "usage.jsonl", "every": 5})
    config.write_text(f"# a run\n{config.read_text()}")
    walk(config, 0)
    return config, log


def walk(config: Path, start: int) -> list[list[str]]:
    feed = penstock.open(config, rank=0, world=1)
    states = config.parent / "states"
    states.mkdir(exist_ok=True)
    ids = []
    with feed.loader(start, threads=0) as loader:
        if start:
            loader.load_state_dict(json.loads((states / f"{start}.json").read_text()))
        for step in range(start, STEPS):
            if step % 2 == 0:
                (states / f"{step}.json").write_text(json.dumps(loader.state_dict()))
            ids.append(next(loader)["ids"])
    feed.close()
    return ids


def last_new(ids: list[list[str]]) -> tuple[str, list[int]]:
    """Return the item that was first used last, and the steps of its uses."""
    uses: dict[str, list[int]] = {}
    for step, batch in enumerate(ids):
        for item in batch:
            uses.setdefault(item, []).append(step)
    return max(uses.items(), key=lambda pair: pair[1][0])


def planned(config: Path) -> list[list[str]]:
    feed = penstock.open(config, rank=0, world=1, usage=None)
    return [feed.batch(step)["ids"] for step in range(STEPS)]


def test_steps_checkpoint_and_config(ran: tuple[Path, Path]) -> None:
    config, log = ran
    item, steps = last_new(planned(config))
    clean = steps[0] - steps[0] % 2
    states = config.parent / "states"
    result = run("forget", config, item, "--ledger", log, "--checkpoints", states)
    assert result.exit_code == 0, result.output
    assert f"{len(steps)} uses in {len(steps)} steps of {STEPS}" in result.stdout or len(steps) == 1
    assert f"steps: {steps[0]}" in result.stdout
    assert f"newest clean checkpoint: {states / f'{clean}.json'} (step {clean})" in result.stdout
    written = config.with_suffix(".forget.yaml")
    assert written.read_text().startswith("# a run\n")
    assert yaml.safe_load(written.read_text())["exclude"] == [{"at": 2 * clean, "items": [item]}]
    assert item not in chain.from_iterable(walk(written, clean))
    assert run("usage", log, "--check", written).exit_code == 0


def test_a_second_time_adds_to_what_is_excluded(ran: tuple[Path, Path]) -> None:
    config, log = ran
    item, steps = last_new(planned(config))
    assert run("forget", config, item, "--ledger", log).exit_code == 0
    first = config.with_suffix(".forget.yaml")
    assert yaml.safe_load(first.read_text())["exclude"] == [{"at": 2 * steps[0], "items": [item]}]
    walk(first, steps[0] - steps[0] % 2)  # lines of later steps no longer count
    result = run("forget", first, "bengali-1.tar", "--ledger", log, "-o", config.parent / "second.yaml")
    assert result.exit_code == 0, result.output
    entries = yaml.safe_load((config.parent / "second.yaml").read_text())["exclude"]
    assert [entry["items"] for entry in entries] == [[item], ["bengali-1.tar"]]
    feed = penstock.open(config.parent / "second.yaml", rank=0, world=1, usage=None)
    assert not [id for step in range(STEPS) for id in feed.batch(step)["ids"] if id.startswith("bengali_1_")]


@pytest.mark.parametrize("torch_is_there", [True, False])
def test_checkpoints_that_cannot_be_read_are_named(
    ran: tuple[Path, Path], torch_is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, log = ran
    (config.parent / "states/half.pt").write_bytes(b"half")
    if not torch_is_there:
        monkeypatch.setitem(sys.modules, "torch", None)
    item, _ = last_new(planned(config))
    result = run("forget", config, item, "--ledger", log, "--checkpoints", config.parent / "states")
    assert result.exit_code == 0, result.output
    why = "can't be loaded with weights_only=True" if torch_is_there else "needs torch, which is not installed"
    assert f"left out: {config.parent / 'states/half.pt'}: {why}" in result.stdout
    assert "newest clean checkpoint: " in result.stdout


def test_prefixes_and_lists(ran: tuple[Path, Path], tmp_path: Path) -> None:
    config, log = ran
    (tmp_path / "names.txt").write_text("hindi_0_1\n\nhindi-1.tar\n")
    result = run("forget", config, "bengali_2_*", f"@{tmp_path / 'names.txt'}", "--ledger", log)
    assert result.exit_code == 0, result.output
    assert "9 items: " in result.stdout
    [entry] = yaml.safe_load(config.with_suffix(".forget.yaml").read_text())["exclude"]
    assert entry["items"][:2] == ["hindi_0_1", "hindi-1.tar"]
    assert entry["items"][2:] == [f"bengali-2.tar:bengali_2_{number}" for number in range(4)]


def test_what_is_excluded_from_the_start_needs_no_sample(ran: tuple[Path, Path]) -> None:
    config, _ = ran
    config.write_text(f"exclude: [{{items: [hindi_0_1]}}]  # gone\n{config.read_text()}")
    log = config.parent / "again.jsonl"
    config.write_text(config.read_text().replace("usage.jsonl", log.name))
    walk(config, 0)
    result = run("forget", config, "hindi_0_2", "--ledger", log)
    assert result.exit_code == 0, result.output
    first, second = yaml.safe_load(config.with_suffix(".forget.yaml").read_text())["exclude"]
    assert (first, second["items"]) == ({"at": 0, "items": ["hindi_0_1"]}, ["hindi_0_2"])


def wrong(config: Path, log: Path, kind: str) -> list[Any]:
    name = "hindi_0_1"
    taken = config.with_suffix(".forget.yaml")
    if kind == "taken":
        taken.write_text("mine")
    other = config.parent / "other.yaml"
    other.write_text(config.read_text().replace("global_batch_size: 2", "global_batch_size: 2\nseed: 77", 1))
    return {
        "taken": [config, name, "--ledger", log],
        "unknown": [config, "hindi_0_99", "--ledger", log],
        "prefix": [config, "nobody_*", "--ledger", log],
        "another run": [config, name, "--ledger", config],
        "elsewhere": [config, name, "--ledger", log, "-o", "/tmp/elsewhere.yaml"],
        "no state": [config, name, "--ledger", log, "--checkpoints", config],
        "whole source": [config, "hindi-0.tar", "hindi-1.tar", "--ledger", log],
    }[kind]


def test_consecutive_steps_are_shown_as_ranges() -> None:
    assert _ranges([0, 1, 2, 5, 7, 8]) == "0:3, 5, 7:9"
    assert _ranges([4]) == "4"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("taken", "exists; remove it, or name another file with -o"),
        ("unknown", "no source has an item or a group with this name: hindi_0_99"),
        ("prefix", "no source has an item or a group with this name: nobody_*"),
        ("another run", "not a usage ledger, or no step was recorded yet"),
        ("elsewhere", "write it into the folder of"),
        ("no state", "expected a state that was saved with json.dump"),
        ("whole source", "give the source the weight 0 from that sample on instead"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_nothing_is_written(
    ran: tuple[Path, Path], kind: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("penstock.cli.forget"), "_MAX_LISTED_NAMES", 1)
    config, log = ran
    result = run("forget", *wrong(config, log, kind))
    assert result.exit_code == 2, result.output
    assert message in result.output
    written = config.with_suffix(".forget.yaml")
    assert not written.exists() or (kind == "taken" and written.read_text() == "mine")
    assert not config.with_suffix(".forget.txt").exists()
