"""A check that finds whatever was changed, and lines that are cut exactly."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock
from penstock.feed import Feed
from penstock.observe.lines import read_lines
from penstock.observe.proof import cut, differences
from tests.observe.ledgers import Line, ledger, opened
from tests.shards import small_run, write_shards


def test_a_ledger_with_bad_samples_agrees_with_the_plan(written: tuple[Feed, list[Line]]) -> None:
    feed, lines = written
    assert {bad["id"] for line in lines for bad in line["bad"]} == {"bengali_0_1", "gujarati_1_0"}
    assert [differences(feed, line) for line in lines] == [[], [], []]


def test_a_finite_pass_with_padding_and_bad_samples_agrees_with_the_plan(damaged: Path, tmp_path: Path) -> None:
    feed = ledger(damaged, tmp_path / "usage.jsonl", passes=2, global_batch_size=25)
    lines = [line for line in read_lines(tmp_path / "usage.jsonl") if line]
    assert sum(line["samples"] for line in lines) == 2 * (sum(feed.catalog.amounts["items"]) - 2)
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


def move_a_group(line: Line) -> None:
    first, second = list(line["groups"])[:2]
    line["groups"][first] += 1
    line["groups"][second] -= 1


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
    *(rename, swap, shorten, drop_a_step, move_a_count, move_a_group, hide_the_bad, blame_another),
    *(invent_a_bad, move_the_steps, change_the_rank, change_the_seed, change_the_sum),
]


@pytest.mark.parametrize("tamper", TAMPERED)
def test_whatever_is_changed_is_found(written: tuple[Feed, list[Line]], tamper: Callable[[Line], None]) -> None:
    feed, lines = written
    line = copy.deepcopy(next(line for line in lines if line["bad"]))
    assert differences(feed, line) == []
    tamper(line)
    assert differences(feed, line)


def test_another_run_is_told_apart(damaged: Path, written: tuple[Feed, list[Line]]) -> None:
    (said,) = differences(opened(damaged, seed=1, global_batch_size=9), written[1][0])
    assert "another run" in said


def test_a_line_that_is_cut_is_the_line_that_would_have_been_written(damaged: Path, tmp_path: Path) -> None:
    ledger(damaged, tmp_path / "short.jsonl", steps=13, global_batch_size=9)
    feed = ledger(damaged, tmp_path / "long.jsonl", steps=20, global_batch_size=9)
    *_, short = read_lines(tmp_path / "short.jsonl")
    *_, long = read_lines(tmp_path / "long.jsonl")
    assert short and long and short["bad"] != long["bad"]
    spent = {"time", "stalls"}
    assert {k: v for k, v in cut(feed, long, 13).items() if k not in spent} == {
        k: v for k, v in short.items() if k not in spent
    }


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"outcome": "lost"},
            "a bad sample has the outcome 'lost', which is not one of replaced, empty, padded, skipped",
        ),
        ({"outcome": "empty"}, "a bad sample left its place empty, but the plan has a substitute"),
        ({"outcome": "padded"}, "planned"),
        ({"id": "bengali_0_2"}, "the bad sample is bengali-0.tar:bengali_0_1, not bengali-0.tar:bengali_0_2"),
        ({"slot": 10**9}, "a bad sample where the plan has no sample"),
    ],
)
def test_an_invented_bad_sample_is_found(
    written: tuple[Feed, list[Line]], changed: dict[str, object], said: str
) -> None:
    feed, lines = written
    line = next(copy.deepcopy(line) for line in lines if any(bad["id"] == "bengali_0_1" for bad in line["bad"]))
    next(bad for bad in line["bad"] if bad["id"] == "bengali_0_1").update(changed)
    assert any(said in text for text in differences(feed, line))


def test_a_line_after_the_end_of_a_finite_run_is_found(damaged: Path, tmp_path: Path) -> None:
    feed = ledger(damaged, tmp_path / "usage.jsonl", passes=1, global_batch_size=9)
    [line] = [line for line in read_lines(tmp_path / "usage.jsonl") if line]
    line["steps"] = [step + 1 for step in line["steps"]]
    assert differences(feed, line) == [f"rank 0, steps 1:{len(feed) + 1}: the run has only {len(feed)} steps"]


def test_lines_of_earlier_releases_are_proven_with_one_more_source(damaged: Path, tmp_path: Path) -> None:
    """They knew all sources that were listed, also one that was never drawn."""
    weights = {"mixture": {"weights": {"assamese": 2, "bengali": 1}}, "global_batch_size": 9}
    old = ledger(damaged, tmp_path / "usage.jsonl", **weights)
    write_shards(tmp_path, {"odia": [4, 3]})
    first = {"manifest": damaged / "index", "store": str(damaged)}
    later = {"filelist": tmp_path / "train.tsv", "store": str(tmp_path), "at": 30 * 9}
    run = {key: value for key, value in small_run(damaged).items() if key not in ("filelist", "store")}
    feed = penstock.open({**run, **weights, "sources": [first, later], "max_bad": 1}, rank=0, world=1)
    for line in read_lines(tmp_path / "usage.jsonl"):
        assert line and differences(feed, line) == []
        listed = old.identity._fingerprint(old.identity.sources, list(old.identity.mixture))
        assert listed != line["fingerprint"]
        assert differences(feed, {**line, "fingerprint": listed}) == []
        other = old.identity._fingerprint(old.identity.sources[::-1], list(old.identity.mixture))
        assert "another run" in differences(feed, {**line, "fingerprint": other})[0]
