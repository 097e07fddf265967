"""What became of uses: by the plan and a ledger the same as what was seen in the batches themselves."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.feed import Feed
from penstock.observe.actual import Actual
from penstock.readers.tar.index import index_shards
from penstock.store.local import LocalStore
from tests.shards import content, damage, small_run, write_shards

Seen = Counter[tuple[int, int, int, int, str]]  # (row, step, rank, slot, what became of it)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Indexed shards with a few damaged samples."""
    folder = tmp_path_factory.mktemp("run")
    write_shards(folder)
    shards = [path.name for path in folder.glob("*.tar")]
    index_shards(LocalStore(folder), shards, folder / "index", filelist=folder / "train.tsv")
    for shard, name in (
        ("bengali-0.tar", "bengali_0_1"),
        ("bengali-0.tar", "bengali_0_2"),
        ("gujarati-1.tar", "gujarati_1_0"),
    ):
        damage(folder / shard, content(shard, name))
    return folder


def opened(folder: Path, log: Path, rank: int, world: int, **options: Any) -> Feed:
    run = {key: value for key, value in small_run(folder).items() if key != "filelist"}
    own = {"manifest": folder / "index", "max_bad": 1, "usage": {"log": log, "every": 4}, "batch_size": 3}
    return penstock.open({**run, **own, **options}, rank=rank, world=world)


def walk(feed: Feed, state: dict[str, Any] | None, steps: int) -> tuple[Seen, dict[str, Any]]:
    """Use so many batches; what was seen in them, and the state after them."""
    seen: Seen = Counter()
    with feed.loader(threads=0) as loader:
        if state:
            loader.load_state_dict(state)
        for _ in range(steps):
            batch = next(loader)
            step, replaced = int(batch["step"]), {bad.slot for bad in batch["bad"]}
            firsts = {bad.slot: bad.row for bad in reversed(batch["bad"])}
            seen.update((row, step, feed.rank, slot, "bad") for slot, row in firsts.items())
            for slot, row in enumerate(batch["rows"].tolist()):
                seen[row, step, feed.rank, slot, "substitute" if slot in replaced else "used"] += 1
        return seen, loader.state_dict()


def test_every_use_of_every_item_is_told_as_it_happened(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    seen: Seen = Counter()
    state: dict[str, Any] | None = None
    for rank in range(2):
        more, state = walk(opened(folder, log, rank, 2), None, 9)
        seen += more
    for rank in range(3):  # more ranks, another batch size
        more, _ = walk(opened(folder, log, rank, 3, batch_size=4), state, 13)
        seen += more
    feed = opened(folder, log, 0, 1)
    actual = Actual(feed, log)
    told: Seen = Counter()
    beyond = 0
    for row in range(sum(feed.catalog.amounts["items"])):
        for use, what in actual.uses(row, 1, 1):
            told[row, use.step, use.rank, use.slot, what] += what != "planned"
            beyond += what == "planned"
    assert +told == seen
    assert {"used", "bad", "substitute"} == {what for *_, what in seen}
    assert beyond == 0, "the one epoch that was asked for lies in the ledger"


def test_what_the_ledger_does_not_reach_is_planned(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = opened(folder, log, 0, 1)
    walk(feed, None, 2)
    actual = Actual(feed, log)
    row = int(feed.batch(5)["rows"][0])
    assert all(what == ("planned" if use.step >= 2 else "used") for use, what in actual.uses(row, 3, 1))
    assert len(list(actual.uses(row, 3, 1))) == 3


@pytest.mark.parametrize("step", [10**6, 10**15, 10**18])
def test_steps_between_lines_are_not_walked_through(folder: Path, tmp_path: Path, step: int) -> None:
    log = tmp_path / "usage.jsonl"
    feed = opened(folder, log, 0, 1)
    walk(feed, None, 8)
    feed.close()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    stretch = len(lines[0]["stalls"])
    lines[1] |= {"steps": [step, step + stretch], "bad": []}
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    actual = Actual(feed, log)
    for at in (0, stretch - 1, step, step + stretch - 1):
        row = int(feed.catalog.rows(feed.planned(at))[0])
        uses = list(actual.uses(row, 0, 1))
        assert all(what == "used" for use, what in uses if use.step in (*range(stretch), *range(step, step + stretch)))
        assert at in {use.step for use, _ in uses}
        assert len(uses) <= 4 * stretch


def test_a_finite_pass_has_no_substitutes(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    feed = opened(folder, log, 0, 1, passes=1)
    walk(feed, None, len(feed))
    actual = Actual(feed, log)
    told = Counter(what for row in range(sum(feed.catalog.amounts["items"])) for _, what in actual.uses(row, 1, 1))
    assert told == {"used": sum(feed.catalog.amounts["items"]) - 3, "bad": 3}


def test_a_ledger_of_another_run_is_refused(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    walk(opened(folder, log, 0, 1), None, 2)
    with pytest.raises(ValueError, match="another run"):
        Actual(opened(folder, log, 0, 1, seed=5), log)
    log.write_text("")
    with pytest.raises(ValueError, match="no line"):
        Actual(opened(folder, log, 0, 1), log)
