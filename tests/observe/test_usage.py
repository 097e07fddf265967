"""Reading a ledger: sums that are right, and a check that finds whatever was changed."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.feed import Feed
from penstock.observe.proof import cut, differences
from penstock.observe.usage import read_lines, summarise
from penstock.sources.index import index_shards
from penstock.store.local import LocalStore
from tests.shards import content, damage, small_run, write_shards

Line = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Indexed shards of which two samples are damaged."""
    folder = tmp_path_factory.mktemp("run")
    write_shards(folder)
    shards = [path.name for path in folder.glob("*.tar")]
    index_shards(LocalStore(folder), shards, folder / "index", filelist=folder / "train.tsv")
    for shard, name in (("bengali-0.tar", "bengali_0_1"), ("gujarati-1.tar", "gujarati_1_0")):
        damage(folder / shard, content(shard, name))
    return folder


def opened(folder: Path, **options: Any) -> Feed:
    run = {key: value for key, value in small_run(folder).items() if key != "filelist"}
    return penstock.open({**run, "manifest": folder / "index", "max_bad": 1, **options}, rank=0, world=1)


def ledger(folder: Path, log: Path, steps: int = 30, **options: Any) -> Feed:
    feed = opened(folder, usage={"log": log, "every": 10, "ids": True}, **options)
    with feed.loader(threads=2) as loader:
        for _ in range(steps):
            if next(loader, None) is None:
                break
    return feed


@pytest.fixture(scope="module")
def written(folder: Path) -> tuple[Feed, list[Line]]:
    feed = ledger(folder, folder / "usage.jsonl", global_batch_size=9)
    return feed, [json.loads(line) for line in (folder / "usage.jsonl").read_text().splitlines()]


def test_a_ledger_with_bad_samples_agrees_with_the_plan(written: tuple[Feed, list[Line]]) -> None:
    feed, lines = written
    assert {bad["id"] for line in lines for bad in line["bad"]} == {"bengali_0_1", "gujarati_1_0"}
    assert [differences(feed, line) for line in lines] == [[], [], []]


def test_a_finite_pass_with_padding_and_bad_samples_agrees_with_the_plan(folder: Path, tmp_path: Path) -> None:
    feed = ledger(folder, tmp_path / "usage.jsonl", passes=2, global_batch_size=25)
    lines = [line for line in read_lines(tmp_path / "usage.jsonl") if line]
    assert sum(line["samples"] for line in lines) == 2 * (len(feed.manifest) - 2)
    assert [differences(feed, line) for line in lines] == [[]]


def rename(line: Line) -> None:
    line["ids"][3][2] = line["ids"][4][2]


def swap(line: Line) -> None:
    line["ids"][3][1], line["ids"][3][0] = line["ids"][3][0], line["ids"][3][1]


def shorten(line: Line) -> None:
    line["ids"][3].pop()


def drop_a_step(line: Line) -> None:
    line["ids"].pop()


def move_a_count(line: Line) -> None:
    first, second = list(line["sources"])[:2]
    line["sources"][first] += 1
    line["sources"][second] -= 1


def move_a_shard(line: Line) -> None:
    first, second = list(line["shards"])[:2]
    line["shards"][first] += 1
    line["shards"][second] -= 1


def hide_the_bad(line: Line) -> None:
    line["bad"].pop()


def blame_another(line: Line) -> None:
    line["bad"][0]["row"] += 1


def invent_a_bad(line: Line) -> None:
    line["bad"].append({**line["bad"][0], "slot": 99})


def move_the_steps(line: Line) -> None:
    line["steps"] = [step + 1 for step in line["steps"]]


def change_the_rank(line: Line) -> None:
    line["rank"], line["world"] = 1, 3


def change_the_seed(line: Line) -> None:
    line["fingerprint"]["seed"] += 1


def change_the_sum(line: Line) -> None:
    line["samples"] -= 1


TAMPERED: list[Callable[[Line], None]] = [
    *(rename, swap, shorten, drop_a_step, move_a_count, move_a_shard, hide_the_bad, blame_another),
    *(invent_a_bad, move_the_steps, change_the_rank, change_the_seed, change_the_sum),
]


@pytest.mark.parametrize("tamper", TAMPERED)
def test_whatever_is_changed_is_found(written: tuple[Feed, list[Line]], tamper: Callable[[Line], None]) -> None:
    feed, lines = written
    line = copy.deepcopy(next(line for line in lines if line["bad"]))
    assert differences(feed, line) == []
    tamper(line)
    assert differences(feed, line)


def test_another_run_is_told_apart(folder: Path, written: tuple[Feed, list[Line]]) -> None:
    (said,) = differences(opened(folder, seed=1, global_batch_size=9), written[1][0])
    assert "another run" in said


def test_sums_are_those_of_all_lines_and_cache_counts_those_of_a_node_once(
    written: tuple[Feed, list[Line]], tmp_path: Path
) -> None:
    lines = copy.deepcopy(written[1])
    for number, line in enumerate(lines):
        line |= {"pid": number, "rank": number, "cache": {"hits": 10 + number, "waits": 5 - number}}
        line["host"] = "ab"[number // 2]
    log = tmp_path / "usage.jsonl"
    log.write_text("\n".join([*map(json.dumps, lines), '{"time": 3, "ho', "[]", "{}", ""]))
    usage = summarise(read_lines(log))
    assert (usage.lines, usage.torn, usage.samples) == (3, 3, 270)
    assert (usage.first_step, usage.next_step) == (0, 30)
    assert usage.processes == {("a", 0), ("a", 1), ("b", 2)} and usage.ranks == {0, 1, 2}
    assert sum(usage.sources.values()) == sum(usage.shards.values()) == 270
    assert usage.cache == {"a": {"hits": 11, "waits": 5}, "b": {"hits": 12, "waits": 3}}
    assert len(usage.bad) == sum(len(line["bad"]) for line in lines)


def test_cache_counts_of_a_rank_add_up_over_its_lines_and_restarts(
    written: tuple[Feed, list[Line]], tmp_path: Path
) -> None:
    lines = [{**line, "pid": number, "cache": {"hits": 3}} for number, line in enumerate(written[1])]
    (tmp_path / "usage.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (counts,) = summarise(read_lines(tmp_path / "usage.jsonl")).cache.values()
    assert counts == {"hits": 9}


def test_a_line_that_is_cut_is_the_line_that_would_have_been_written(folder: Path, tmp_path: Path) -> None:
    ledger(folder, tmp_path / "short.jsonl", steps=13, global_batch_size=9)
    feed = ledger(folder, tmp_path / "long.jsonl", steps=20, global_batch_size=9)
    *_, short = read_lines(tmp_path / "short.jsonl")
    *_, long = read_lines(tmp_path / "long.jsonl")
    assert short and long and short["bad"] != long["bad"]
    spent = {"time", "waited_seconds"}
    assert {k: v for k, v in cut(feed, long, 13).items() if k not in spent} == {
        k: v for k, v in short.items() if k not in spent
    }


def test_a_run_that_went_back_counts_once_and_its_time_in_full(folder: Path, tmp_path: Path) -> None:
    straight = ledger(folder, tmp_path / "straight.jsonl", steps=40, global_batch_size=9)
    log = tmp_path / "usage.jsonl"
    feed = ledger(folder, log, steps=30, global_batch_size=9)
    with feed.loader(start=17, threads=2) as loader:  # from an older checkpoint
        for _ in range(23):
            next(loader)
    once, again = summarise(read_lines(tmp_path / "straight.jsonl"), straight), summarise(read_lines(log), feed)
    assert (again.lineage.repeated, again.lineage.doubled, again.lineage.gaps) == (13, 0, [])
    assert (again.samples, again.sources, again.shards) == (360, once.sources, once.shards)
    assert [(bad["step"], bad["id"]) for bad in again.bad] == [(bad["step"], bad["id"]) for bad in once.bad]
    told = [line["waited_seconds"] for line in read_lines(log) if line]
    assert again.waited_seconds == pytest.approx(sum(told)) and len(told) == again.lines == 6
    unplanned = summarise(read_lines(log))
    assert (unplanned.lineage.repeated, unplanned.lineage.doubled, unplanned.samples) == (13, 3, 360 + 3 * 9)
