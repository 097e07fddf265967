"""Several sources in one run, with a store and a recipe each: one plan, one state, one ledger."""

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import penstock
from penstock.feed import Feed
from penstock.feed.batches import Batch, flat_batches
from penstock.media.audio.wav import wav_bytes
from tests.cli.commands import run
from tests.readers.tar.archives import write_tar
from tests.shards import Sizes, content, write_shards

RATE = 16_000
BATCH = 6
STEPS = 40
VOICES = {"hindi": [5, 4], "tamil": [7]}
WEIGHTS = {"notes/assamese": 3, "notes/bengali": 1, "voices/hindi": 4, "voices/tamil": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_parts(tmp_path_factory.mktemp("parts"))


def write_parts(folder: Path) -> Path:
    """Texts of two sources in one store, clips of two languages in another."""
    (folder / "texts").mkdir()
    (folder / "clips").mkdir()
    write_shards(folder / "texts", {"assamese": [5, 7], "bengali": [6]})
    write_clips(folder / "clips", VOICES)
    return folder


def write_clips(folder: Path, sizes: Sizes) -> None:
    """Write shards of clips and ``train.tsv``."""
    lines = []
    for language, counts in sizes.items():
        for number, count in enumerate(counts):
            shard = f"{language}-{number}.tar"
            names = [f"{language}_{number}_{place}" for place in range(count)]
            write_tar(folder / shard, [(f"{name}.wav", clip(name)) for name in names])
            lines += [f"{shard}\t{name}\t{language}\t2.0\n" for name in names]
    (folder / "train.tsv").write_text("".join(lines))


def clip(name: str) -> bytes:
    """Two seconds of a ramp that begins elsewhere for every name: a crop says where it was taken."""
    ramp = (np.arange(2 * RATE) + sum(name.encode()) * 7) % 20_000
    return wav_bytes(ramp.astype(np.float32) / 2**15, RATE)


def config(folder: Path, **options: Any) -> dict[str, Any]:
    sources = [
        {"name": "notes", "filelist": folder / "texts" / "train.tsv", "store": str(folder / "texts")},
        {
            "name": "voices",
            "recipe": "speech",
            "filelist": folder / "clips" / "train.tsv",
            "store": str(folder / "clips"),
        },
    ]
    own = {
        "recipe": "raw",
        "sources": sources,
        "speech": {"crop": "1s", "features": False},
        "global_batch_size": BATCH,
        "pool": 2,
        "seed": 11,
        "mixture": {"weights": WEIGHTS},
        "cache": {"dir": folder / "cache", "size": "1GB"},
    }
    return {**own, **options}


def opened(folder: Path, *, rank: int = 0, world: int = 1, **options: Any) -> Feed:
    return penstock.open(config(folder, **options), rank=rank, world=world)


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


def test_a_batch_has_every_recipe_and_each_sample_is_where_the_plan_put_it(folder: Path) -> None:
    feed = opened(folder)
    for step in range(STEPS):
        batch = feed.batch(step)
        lines = list(feed.lines(step))
        assert set(batch) == {"step", "raw", "speech"} and batch["step"] == step
        slots = [*batch["raw"]["slots"].tolist(), *batch["speech"]["slots"].tolist()]
        assert sorted(slots) == list(range(BATCH))
        for name in ("raw", "speech"):
            own = [lines[slot] for slot in batch[name]["slots"].tolist()]
            assert batch[name]["ids"] == [line.item for line in own]
            assert batch[name]["sources"] == [line.source for line in own] and not batch[name]["bad"]
        for slot, record in zip(batch["raw"]["slots"].tolist(), batch["raw"]["records"], strict=True):
            assert record == {"txt": content(lines[slot].group, lines[slot].item)}
        assert batch["speech"]["wav"].shape == (len(batch["speech"]["ids"]), RATE)
        assert rows_in_order(batch) == feed.catalog.rows(feed.planned(step))


def test_the_mix_is_exact_over_all_parts_at_every_batch_end(folder: Path) -> None:
    feed = opened(folder)
    drawn = Counter[str]()
    for step in range(200):
        drawn.update(line.source for line in feed.lines(step))
        for name, weight in WEIGHTS.items():
            assert abs(drawn[name] - BATCH * (step + 1) * weight / sum(WEIGHTS.values())) < 1


def test_a_recipe_that_no_sample_of_a_batch_is_for_has_no_rows(folder: Path) -> None:
    feed = opened(folder, global_batch_size=1)
    batches = [feed.batch(step) for step in range(12)]
    empty = [batch for batch in batches if not batch["speech"]["ids"]]
    assert empty and all(batch["speech"]["wav"].shape == (0, RATE) for batch in empty)
    assert all(len(batch["raw"]["ids"]) + len(batch["speech"]["ids"]) == 1 for batch in batches)


@pytest.mark.parametrize(("threads", "workers"), [(0, 0), (3, 0), (None, 2)])
def test_one_state_resumes_all_parts_at_every_step(folder: Path, threads: int | None, workers: int) -> None:
    whole = [plain(opened(folder).batch(step)) for step in range(STEPS + 2)]
    stops = range(STEPS) if not workers else (1, 17)
    for stop in stops:
        first = opened(folder)
        state = json.loads(json.dumps(first.state(stop)))
        assert len(json.dumps(state)) < 1_000
        with opened(folder).loader(threads=threads, workers=workers) as loader:
            loader.load_state_dict(state)
            assert [plain(batch) for batch in islice(loader, 2)] == whole[stop : stop + 2]


def rows_in_order(batch: Batch) -> list[int]:
    """Return the rows of a batch of several recipes in the order of its slots."""
    by_slot = {slot: row for each in flat_batches(batch) for slot, row in zip(each["slots"], each["rows"], strict=True)}
    return [int(by_slot[slot]) for slot in sorted(by_slot)]


def test_ranks_in_turn_have_the_global_batch(folder: Path) -> None:
    for step in range(10):
        rows = [rows_in_order(opened(folder).batch(step, rank, 3)) for rank in range(3)]
        assert [row for each in rows for row in each] == rows_in_order(opened(folder).batch(step))


def test_a_sample_does_not_depend_on_what_is_mixed_with_it(folder: Path) -> None:
    """The crop of a clip is the same in a run of speech alone, as its draws know its source and its row there."""
    [_, voices] = config(folder)["sources"]
    nameless = {key: value for key, value in voices.items() if key not in ("name", "recipe")}
    [notes, _] = config(folder)["sources"]
    alone = penstock.open(config(folder, recipe="speech", sources=[nameless], mixture={"weights": "equal"}))
    mixed = penstock.open(
        config(folder, sources=[notes, {**nameless, "recipe": "speech"}], mixture={"weights": "equal"})
    )
    crops = {}
    for step in range(STEPS):
        batch = alone.batch(step)
        for line, wav in zip(alone.lines(step), batch["wav"], strict=True):
            crops[line.item, line.epoch] = wav
    seen = 0
    for step in range(STEPS):
        lines = list(mixed.lines(step))
        batch = mixed.batch(step)["speech"]
        for slot, wav in zip(batch["slots"].tolist(), batch["wav"], strict=True):
            if (key := (lines[slot].item, lines[slot].epoch)) in crops:
                assert (wav == crops[key]).all()
                seen += 1
    assert seen > 40


def test_names_of_sources_come_from_the_entry_and_must_differ(folder: Path) -> None:
    assert opened(folder).catalog.sources == tuple(WEIGHTS)
    [notes, voices] = config(folder)["sources"]
    with pytest.raises(penstock.ConfigError, match="two of them are named 'voices/hindi'"):
        opened(folder, sources=[notes, voices, voices])
    only = {**voices, "name": "tamil only", "filelist": folder / "tamil.tsv"}
    lines = (folder / "clips" / "train.tsv").read_text().splitlines(keepends=True)
    (folder / "tamil.tsv").write_text("".join(line for line in lines if "tamil" in line))
    assert opened(folder, sources=[notes, only], mixture={}).catalog.sources[-1] == "tamil only"


def test_a_state_of_other_data_names_the_source_that_differs(folder: Path) -> None:
    state = opened(folder).state(5)
    lines = (folder / "clips" / "train.tsv").read_text().splitlines(keepends=True)
    (folder / "fewer.tsv").write_text("".join(lines[:-1]))
    [notes, voices] = config(folder)["sources"]
    changed = opened(folder, sources=[notes, {**voices, "filelist": folder / "fewer.tsv"}])
    with pytest.raises(penstock.StateError, match=r"it differs in items \(of voices/tamil\); restore"):
        changed.resume(state)


def test_by_default_parts_are_mixed_by_hours_where_all_have_them(folder: Path) -> None:
    feed = opened(folder, mixture={})
    drawn = Counter(line.source for step in range(300) for line in feed.lines(step))
    hours = dict(zip(feed.catalog.sources, feed.catalog.amounts["hours"], strict=True))
    for name, count in drawn.items():
        assert abs(count - 300 * BATCH * hours[name] / sum(hours.values())) < 1


def test_commands_and_the_ledger_know_all_parts(folder: Path, tmp_path: Path) -> None:
    usage = {"log": str(tmp_path / "usage.jsonl"), "every": 4, "ids": True}
    keys = json.loads(json.dumps(config(folder, usage=usage), default=str))
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(keys))
    feed = penstock.open(path, rank=0, world=1)
    with feed.loader(threads=2) as loader:
        for _ in islice(loader, 10):
            pass
    checked = run("usage", tmp_path / "usage.jsonl", "--check", path)
    assert checked.exit_code == 0 and "voices/hindi" in checked.output, checked.output
    done = run("replay", path, "--steps", "2", "-o", tmp_path / "seen")
    assert done.exit_code == 0, done.output
    about = json.loads((tmp_path / "seen" / "step-2" / "rank-0" / "batch.json").read_text())
    lines = list(feed.lines(2))
    assert [sample["item"] for sample in about["samples"]] == [f"{line.group}:{line.item}" for line in lines]
    endings = {Path(name).suffix for sample in about["samples"] for name in sample["files"]}
    assert endings == {".txt", ".wav"}
    voice = next(line for line in lines if line.source.startswith("voices"))
    found = run("where", path, voice.item, "--json")
    assert json.loads(found.stdout.splitlines()[0])["step"] <= 2


def test_a_finite_pass_over_several_recipes_has_every_item_once_and_its_ledger_is_the_plan(
    folder: Path, tmp_path: Path
) -> None:
    usage = {"log": str(tmp_path / "usage.jsonl"), "every": 2, "ids": True}
    keys = json.loads(json.dumps(config(folder, usage=usage, passes=1, global_batch_size=8), default=str))
    del keys["mixture"]
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(keys))
    feed = penstock.open(path, rank=0, world=1)
    items = [
        (name, item) for batch in feed.loader(threads=2) for name in ("raw", "speech") for item in batch[name]["ids"]
    ]
    assert len(items) == len(set(items)) == 5 + 7 + 6 + 5 + 4 + 7 and len(items) % 8 == 2, "the last batch is not full"
    last = feed.batch(len(feed) - 1)
    slots = [*last["raw"]["slots"].tolist(), *last["speech"]["slots"].tolist()]
    assert sorted(slots) == [0, 4] and last["raw"]["valid"].all() and last["speech"]["valid"].all()
    checked = run("usage", tmp_path / "usage.jsonl", "--check", path)
    assert checked.exit_code == 0 and "✓" in checked.output, checked.output
