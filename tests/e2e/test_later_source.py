"""One more dataset for a run that goes on: real files of every recipe, one ledger, and what the commands show."""

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.feed import Feed
from tests.cli.commands import complaint, lines_of, run
from tests.feed.test_parts import write_clips
from tests.golden.batches import exact, fields
from tests.pipelines.test_robot_parity import NAMES, ROBOT
from tests.text.chat_templates import CHATML
from tests.text.made_tokenizers import byte_level

pytestmark = pytest.mark.long

BATCH = 4
STOP = 9  # steps that the run has made before it hears of the new dataset
COMES = STOP * BATCH + 6  # in the middle of a batch
STEPS = 24

Keys = dict[str, Any]


def speech(folder: Path) -> tuple[Keys, Keys]:
    """A filelist of two languages at the top level, which is the first entry of two from then on."""
    for name, sizes in (("old", {"hindi": [5, 4], "tamil": [7]}), ("new", {"bengali": [6, 3]})):
        (folder / name).mkdir()
        write_clips(folder / name, sizes)
    first = {"filelist": "old/train.tsv", "store": "old"}
    keys = {"recipe": "speech", "speech": {"crop": "1s", "features": False}}
    return {**keys, **first}, {**keys, "sources": [first, {"filelist": "new/train.tsv", "store": "new", "at": COMES}]}


def chat(folder: Path) -> tuple[Keys, Keys]:
    for name, count in (("web", 30), ("books", 12), ("studio", 20)):
        rows = ({"prompt": f"{name} {number}?", "completion": "yes. " * (number % 4 + 1)} for number in range(count))
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    byte_level(chat_template=CHATML).save_pretrained(folder / "tokenizer")
    web, books, studio = (
        {"name": name, "dtype": "conversation", "path": f"{name}.jsonl"} for name in ("web", "books", "studio")
    )
    keys = {"recipe": "chat", "chat": {"tokenizer": "./tokenizer"}, "mixture": {"weights": "tokens"}}
    return {**keys, "sources": [web, books]}, {**keys, "sources": [web, books, {**studio, "at": COMES}]}


def robot(folder: Path) -> tuple[Keys, Keys]:
    first, second = ({"name": name, "store": str(ROBOT / name)} for name in NAMES)
    return {"recipe": "robot", "sources": [first]}, {"recipe": "robot", "sources": [first, {**second, "at": COMES}]}


def write_config(folder: Path, name: str, keys: Keys) -> Path:
    own = {"global_batch_size": BATCH, "seed": 5, "cache": {"dir": "cache", "size": "1GB"}}
    own["usage"] = {"log": "usage.jsonl", "every": 5, "ids": True}
    path = folder / name
    path.write_text(json.dumps({**own, **keys}))
    return path


def told(batch: dict[str, Any]) -> dict[str, bytes]:
    return {name: exact(value) for name, value in fields(batch)}


def opened(config: Path) -> Feed:
    return penstock.open(config, rank=0, world=1)


@pytest.mark.parametrize("recipe", [speech, chat, robot])
def test_a_run_goes_on_with_one_more_dataset(tmp_path: Path, recipe: Callable[[Path], tuple[Keys, Keys]]) -> None:
    before, after = recipe(tmp_path)
    old = write_config(tmp_path, "old.yaml", before)
    new = write_config(tmp_path, "new.yaml", after)
    with opened(old).loader(threads=2) as loader:
        batches = list(islice(loader, STOP))
        state = loader.state_dict()
    (tmp_path / "state.json").write_text(json.dumps(state))
    with opened(new).loader(threads=2) as loader:
        loader.load_state_dict(json.loads((tmp_path / "state.json").read_text()))
        batches += islice(loader, STEPS - STOP)
        later = loader.state_dict()

    whole = penstock.open(new, rank=0, world=1, usage=None)
    assert list(map(told, batches)) == [told(whole.batch(step)) for step in range(STEPS)]
    assert later == whole.state(STEPS)
    added = whole.catalog.sources[-1]
    first = next(number for number, batch in enumerate(batches) if added in batch["sources"])
    assert first >= COMES // BATCH
    assert len(json.dumps(later)) < 1000

    fits = run("state", tmp_path / "state.json", new)
    assert fits.exit_code == 0 and f"continues at step {STOP}, sample {STOP * BATCH}" in fits.stdout
    checked = run("usage", tmp_path / "usage.jsonl", "--check", new)
    assert checked.exit_code == 0, checked.output
    assert f"all {STEPS * BATCH} samples agree with the plan" in checked.stdout
    shown = run("mix", new, "--steps", STEPS)
    assert f"another mixture applies from step 10 (sample {COMES}) on; new: {added}" in shown.stdout
    rows = [json.loads(line) for line in run("mix", new, "--json").stdout.splitlines()]
    assert {row["source"]: row["at"] for row in rows} == {
        name: COMES if name == added else 0 for name in whole.catalog.sources
    }
    planned = lines_of(run("plan", new, "--steps", f"{first}:{first + 1}", "--state", tmp_path / "state.json"))
    [line] = [line for line in whole.lines(first) if line.source == added][:1]
    assert any(f"{line.group}\t{line.item}" in text for text in planned)
    used = run("where", new, f"{line.group}:{line.item}", "--ledger", tmp_path / "usage.jsonl", "--json")
    uses = [json.loads(text) for text in used.stdout.splitlines()]
    assert {"step": first, "outcome": "used"}.items() <= uses[0].items()

    early = write_config(tmp_path, "early.yaml", {**after, "sources": [dict(each) for each in after["sources"]]})
    content = json.loads(early.read_text())
    del content["sources"][-1]["at"]
    early.write_text(json.dumps(content))
    refused = run("state", tmp_path / "state.json", early)
    assert refused.exit_code == 1
    hint = f"(new: {added}; list new sources last, with `at: {STOP * BATCH}` or later in each of their entries)"
    assert hint in refused.stdout
    said = complaint(run("plan", early, "--state", tmp_path / "state.json"))
    assert hint in said
    wrong = run("usage", tmp_path / "usage.jsonl", "--check", early)
    assert wrong.exit_code == 1 and "written by another run" in wrong.stdout


def test_steps_that_were_made_before_the_config_changed_and_again_after_it_are_proven(tmp_path: Path) -> None:
    """Killed after its last checkpoint: the ledger has steps of the old order, which the new dataset changes."""
    before, after = speech(tmp_path)
    after["sources"][-1]["at"] = STOP * BATCH
    new = write_config(tmp_path, "new.yaml", after)
    with opened(write_config(tmp_path, "old.yaml", before)).loader(threads=0) as loader:
        list(islice(loader, STOP))
        state = loader.state_dict()
        list(islice(loader, 7))
    with opened(new).loader(threads=0) as loader:
        loader.load_state_dict(state)
        batches = list(islice(loader, STEPS - STOP))
    log = tmp_path / "usage.jsonl"
    checked = run("usage", log, "--check", new)
    assert checked.exit_code == 0, checked.output
    assert "7 steps of a rank made again" in checked.stdout
    assert f"all {STEPS * BATCH} samples agree with the plan" in checked.stdout
    line = next(line for line in opened(new).lines(STOP) if line.item in batches[0]["ids"])
    used = run("where", new, f"{line.group}:{line.item}", "--ledger", log, "--json")
    uses = [json.loads(text) for text in used.stdout.splitlines()]
    assert (STOP, "used") in {(use["step"], use["outcome"]) for use in uses}

    lines = [json.loads(text) for text in log.read_text().splitlines()]
    [given_up] = [each for each in lines if each["steps"] == [STOP, STOP + 5]][:1]
    for damage in ({"seed": 9}, {"run": "2 passes"}):
        given_up["fingerprint"] |= damage
        log.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
        assert run("usage", log, "--check", new).exit_code == 1, "no config ever wrote it"
