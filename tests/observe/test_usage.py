"""Reading a ledger: sums that are right."""

import copy
import json
from pathlib import Path

from penstock.feed import Feed
from penstock.observe.lines import read_lines
from penstock.observe.usage import summarise
from tests.observe.ledgers import Line, ledger


def test_sums_are_those_of_all_lines_and_cache_counts_those_of_a_node_once(
    written: tuple[Feed, list[Line]], tmp_path: Path
) -> None:
    lines = copy.deepcopy(written[1])
    for number, line in enumerate(lines):
        line |= {"pid": number, "rank": number, "world": 3, "cache": {"hits": 10 + number, "waits": 5 - number}}
        line["host"] = "ab"[number // 2]
    log = tmp_path / "usage.jsonl"
    log.write_text("\n".join([*map(json.dumps, lines), '{"time": 3, "ho', "[]", "{}", ""]))
    usage = summarise(read_lines(log))
    assert (usage.lines, usage.torn, usage.samples) == (3, 3, 270)
    assert (usage.first_step, usage.next_step) == (0, 30)
    assert usage.processes == {("a", 0), ("a", 1), ("b", 2)} and usage.ranks == {0, 1, 2}
    assert sum(usage.sources.values()) == sum(usage.groups.values()) == 270
    assert usage.cache == {"a": {"hits": 11, "waits": 5}, "b": {"hits": 12, "waits": 3}}
    assert len(usage.bad) == sum(len(line["bad"]) for line in lines)


def test_cache_counts_of_a_rank_add_up_over_its_lines_and_restarts(
    written: tuple[Feed, list[Line]], tmp_path: Path
) -> None:
    lines = [{**line, "pid": number, "cache": {"hits": 3}} for number, line in enumerate(written[1])]
    (tmp_path / "usage.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (counts,) = summarise(read_lines(tmp_path / "usage.jsonl")).cache.values()
    assert counts == {"hits": 9}


def test_cache_counts_of_workers_that_take_turns_are_those_of_the_node_once(
    written: tuple[Feed, list[Line]], tmp_path: Path
) -> None:
    told = [("a", 0, 4), ("a", 1, 5), ("a", 0, 3), ("b", 0, 1), ("b", 1, 2)]
    line = written[1][0]
    lines = [{**line, "walk": walk, "worker": worker, "cache": {"hits": hits}} for walk, worker, hits in told]
    (tmp_path / "usage.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (counts,) = summarise(read_lines(tmp_path / "usage.jsonl")).cache.values()
    assert counts == {"hits": max(4 + 3, 5) + max(1, 2)}


def test_a_run_that_went_back_counts_once_and_its_time_in_full(damaged: Path, tmp_path: Path) -> None:
    straight = ledger(damaged, tmp_path / "straight.jsonl", steps=40, global_batch_size=9)
    log = tmp_path / "usage.jsonl"
    feed = ledger(damaged, log, steps=30, global_batch_size=9)
    with feed.loader(start=17, threads=2) as loader:  # from an older checkpoint
        for _ in range(23):
            next(loader)
    once, again = summarise(read_lines(tmp_path / "straight.jsonl"), straight), summarise(read_lines(log), feed)
    assert (again.lineage.repeated, again.lineage.doubled, again.lineage.gaps) == (13, 0, [])
    assert (again.samples, again.sources, again.groups) == (360, once.sources, once.groups)
    assert [(bad["step"], bad["id"]) for bad in again.bad] == [(bad["step"], bad["id"]) for bad in once.bad]
    assert again.lines == 6 and len(again.stalls) == 30 + 23
    unplanned = summarise(read_lines(log))
    assert (unplanned.lineage.repeated, unplanned.lineage.doubled, unplanned.samples) == (13, 3, 360 + 3 * 9)
