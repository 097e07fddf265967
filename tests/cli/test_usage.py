"""``penstock usage``: what a run has used, shown and proven."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from torch.utils.data import DataLoader

import penstock
from tests.cli.commands import complaint, config_of, run

Written = tuple[Path, Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """A run and its ledger of 25 steps."""
    config = config_of(tmp_path)
    options: dict[str, Any] = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({**options, "usage": {"log": "logs/data_usage.jsonl", "every": 10, "ids": True}}))
    with penstock.open(config, rank=0, world=1).loader(threads=2) as loader:
        for _ in range(25):
            next(loader)
    return config, tmp_path / "logs" / "data_usage.jsonl"


@pytest.mark.parametrize("option", ["--groups", "--shards"])
def test_it_shows_samples_per_source_groups_and_steps(written: Written, option: str) -> None:
    _, log = written
    result = run("usage", log, option, 2)
    assert result.exit_code == 0, result.output
    assert "300 samples in 3 lines of 1 process (1 rank), steps 0 to 24" in result.output
    for source in ("assamese", "bengali", "gujarati"):
        (row,) = (line for line in result.output.splitlines() if source in line and ".tar" not in line)
        assert "100" in row and "33.33%" in row
    assert "8 groups used" in result.output and result.output.count(".tar") == 2
    assert "0 bad samples" in result.output


def test_it_shows_how_long_steps_stood_still(tmp_path: Path, written: Written) -> None:
    lines = [json.loads(line) for line in written[1].read_text().splitlines()]
    for number, line in enumerate(lines):
        line["stalls"] = [0.001] * 9 + [0.5 * number] if number < 2 else [0.001] * 5
    (tmp_path / "usage.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = "waited 0.5 s for data: median 1.0 ms per step, 99th percentile 1.0 ms, maximum 500.0 ms at step 19"
    assert told in run("usage", tmp_path / "usage.jsonl").output


def test_the_check_shows_how_far_from_quota_each_source_is(written: Written) -> None:
    config, log = written
    result = run("usage", log, "--check", config)
    assert result.exit_code == 0, result.output
    assert result.output.count("+0.00") == 3
    assert "all 300 samples agree with the plan" in result.output


def test_ledgers_of_several_nodes_are_one_run(written: Written, tmp_path: Path) -> None:
    config, _ = written
    nodes = [tmp_path / f"node{rank}.jsonl" for rank in range(2)]
    for rank, node in enumerate(nodes):
        feed = penstock.open(config, rank=rank, world=2, usage={"log": node, "every": 10})
        with feed.loader(threads=0) as loader:
            for _ in range(25):
                next(loader)
    result = run("usage", *nodes, "--check", config)
    assert result.exit_code == 0, result.output
    assert "300 samples in 6 lines of 1 process (2 ranks), steps 0 to 24" in result.output
    result = run("usage", nodes[0], "--check", config)
    assert result.exit_code == 1 and "rank 1 of 2: no line covers steps 0:25" in result.output
    options = ("--world", 2, "--ledger", nodes[0], "--ledger", nodes[1])
    uses = [json.loads(line) for line in run("where", config, "assamese_1_3", *options, "--json").stdout.splitlines()]
    assert {use["rank"] for use in uses} == {0, 1} and {use["outcome"] for use in uses} == {"used"}
    page = tmp_path / "page.html"
    assert run("replay", config, "--steps", 3, *options, "--html", page).exit_code == 0
    assert page.read_text().count("In the ledger: rank ") == 2


def test_a_changed_line_fails_the_check(written: Written) -> None:
    config, log = written
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines[1]["ids"][4][0] = "[/] a name with brackets"
    log.write_text("\n".join(map(json.dumps, lines)))
    result = run("usage", log, "--check", config)
    assert result.exit_code == 1
    assert "proven: steps 0 to 9 of the only rank\nproven: steps 20 to 24 of the only rank\n" in result.output
    assert "step 14 planned" in result.output and "used [/] a name with brackets" in result.output
    assert f"{log} is not proven: it differs from the plan of {config} in 1 place" in result.stderr


def test_a_missing_line_fails_the_check(written: Written) -> None:
    config, log = written
    first, _, last = log.read_text().splitlines()
    log.write_text(f"{first}\n{last}\n")
    assert run("usage", log).exit_code == 0
    result = run("usage", log, "--check", config)
    assert result.exit_code == 1 and "no line covers steps 10:20" in result.output


def test_steps_that_were_repeated_are_told_and_count_once(written: Written) -> None:
    config, log = written
    with penstock.open(config, rank=0, world=1).loader(start=14, threads=2) as loader:
        for _ in range(11):
            next(loader)
    result = run("usage", log, "--check", config)
    assert result.exit_code == 0, result.output
    assert "300 samples in 5 lines" in result.output and "all 300 samples agree with the plan" in result.output
    assert "11 steps of a rank made again" in result.output and "twice" not in result.output
    assert result.output.count("+0.00") == 3
    assert "but 6 count twice" in run("usage", log).output


def test_a_run_of_dataloader_workers_that_is_stopped_passes_the_check(tmp_path: Path) -> None:
    config = config_of(tmp_path, global_batch_size=300, usage={"log": "usage.jsonl"})
    feed = penstock.open(config, rank=0, world=1)
    options: dict[str, Any] = {"num_workers": 2, "prefetch_factor": 8, "multiprocessing_context": "fork"}
    for batch in DataLoader(feed, batch_size=None, sampler=feed.steps(), **options):
        if batch["step"] == 9:
            break
    result = run("usage", tmp_path / "usage.jsonl", "--check", config)
    assert result.exit_code == 0, result.output


def made_by_workers(feed: penstock.Feed, steps: int) -> None:
    """Make the first steps in two worker processes of a DataLoader."""
    workers: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}
    for _ in DataLoader(feed, batch_size=None, sampler=range(steps), **workers):
        pass


def test_ranks_whose_dataloaders_made_more_or_less_ahead_pass_the_check(tmp_path: Path) -> None:
    config = config_of(tmp_path, usage={"log": "usage.jsonl"})
    for rank in range(2):
        made_by_workers(penstock.open(config, rank=rank, world=2), 10 + 4 * rank)
    result = run("usage", tmp_path / "usage.jsonl", "--check", config)
    assert result.exit_code == 0, result.output
    assert "not counted: 4 steps of a rank that workers made ahead and the trainer never received" in result.output
    assert "proven: steps 0 to 9 of all 2 ranks" in result.output


def test_lines_that_a_worker_lost_fail_the_check(tmp_path: Path) -> None:
    config = config_of(tmp_path, usage={"log": "usage.jsonl"})
    log = tmp_path / "usage.jsonl"
    made_by_workers(penstock.open(config, rank=0, world=1), 60)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    kept = [line for line in lines if line["worker"] == 0 or line["steps"][0] < 20]
    log.write_text("".join(json.dumps(line) + "\n" for line in kept))
    result = run("usage", log, "--check", config)
    assert result.exit_code == 1 and "no line covers steps 21:22" in result.output


def test_a_torn_line_fails_the_check_and_is_shown_without_it(written: Written) -> None:
    config, log = written
    log.write_text(log.read_text()[:-40])
    assert "1 torn line\n" in run("usage", log).output
    result = run("usage", log, "--check", config)
    assert result.exit_code == 1 and "line 3 is not a ledger line" in result.output


@pytest.fixture
def ranks(tmp_path: Path) -> Written:
    """A run of three ranks and its ledger of 20 steps, five per line."""
    config = config_of(tmp_path, usage={"log": "usage.jsonl", "every": 5})
    for rank in range(3):
        with penstock.open(config, rank=rank, world=3).loader(threads=0) as loader:
            for _ in range(20):
                next(loader)
    return config, tmp_path / "usage.jsonl"


Attack = Callable[[list[Any]], Iterable[Any]]
HUGE = 10**18


def of_rank(lines: list[Any], rank: int) -> list[Any]:
    return [line for line in lines if line["rank"] == rank]


def in_segments(line: Any, segments: list[list[int]], **keys: Any) -> Any:
    return {**line, "segments": segments, **keys}


ATTACKS: dict[str, tuple[Attack, list[str]]] = {
    "all lines of a rank": (
        lambda lines: [line for line in lines if line["rank"] != 1],
        ["rank 1 of 3: no line covers steps 0:20", "proven: steps 0 to 19 of 2 of 3 ranks"],
    ),
    "the last line of a rank": (
        lambda lines: [line for line in lines if line is not of_rank(lines, 2)[-1]],
        [
            "rank 2 of 3: no line covers steps 15:20",
            "proven: steps 0 to 14 of all 3 ranks",
            "proven: steps 15 to 19 of 2 of 3 ranks",
        ],
    ),
    "the first line of a rank": (
        lambda lines: [line for line in lines if line is not of_rank(lines, 0)[0]],
        ["rank 0 of 3: no line covers steps 0:5", "proven: steps 5 to 19 of all 3 ranks"],
    ),
    "a copy": (lambda lines: [*lines, lines[0]], ["line 13 is a copy of line 1", "steps 0 to 19 of all 3 ranks"]),
    "a copy at another time": (
        lambda lines: [*lines, {**lines[0], "time": 4e9}],
        ["rank 0 of 3: no line covers steps 5:20", "proven: steps 0 to 4 of all 3 ranks"],
    ),
    "all ranks go back": (
        lambda lines: [*lines, *({**line, "time": 4e9} for line in lines if line["steps"][0] == 0)],
        ["steps 5:20 were reported before the run resumed from an earlier step, but not after"],
    ),
    "a larger world": (
        lambda lines: [{**line, "world": 6} for line in lines],
        ["ranks 3 to 5 of 6: no line covers steps 0:20", "proven: no step"],
    ),
    "a world without end": (
        lambda lines: [{**line, "world": HUGE} for line in lines],
        [f"ranks 3 to {HUGE - 1} of {HUGE}", "proven: no step"],
    ),
    "other batches": (
        lambda lines: [in_segments(line, [[0, 0, 6]]) if line["rank"] == 1 else line for line in lines],
        ["samples, but its batches have 10"],
    ),
    "absurd segments": (
        lambda lines: [*lines, in_segments(lines[0], [[0, 0, 12], [HUGE, 12 * HUGE, 1 << 22]])],
        ["line 13 is not a ledger line", "proven: steps 0 to 19 of all 3 ranks"],
    ),
    "absurd steps": (
        lambda lines: [*lines, in_segments(lines[0], [[0, 0, 3]], steps=[HUGE, HUGE + 5])],
        ["no line covers steps 20:1000000000000000000"],
    ),
    "absurd steps of workers": (
        lambda lines: [
            *({**line, "walk": "a", "worker": number % 2} for number, line in enumerate(lines)),
            {**lines[0], "walk": "a", "worker": 1, "segments": [[0, 0, 3]], "steps": [HUGE, HUGE + 5]},
        ],
        ["✗"],
    ),
    "absurd batches": (
        lambda lines: [
            in_segments(line, [[0, 0, 3 << 20]], samples=5 << 20, steps=[0, 500], stalls=[0] * 500) for line in lines
        ],
        ["samples, but its batches have 524288000", "proven: no step"],
    ),
    "a step after the end of counting": (
        lambda lines: [*lines, {**lines[0], "steps": [HUGE, HUGE + 5]}],
        ["line 13 is not a ledger line"],
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_not_proven_is_named_and_fails_the_check(ranks: Written, attack: str) -> None:
    config, log = ranks
    assert "proven: steps 0 to 19 of all 3 ranks\n✓ all 240 samples" in run("usage", log, "--check", config).output
    change, expected = ATTACKS[attack]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    log.write_text("".join(json.dumps(line) + "\n" for line in change(lines)))
    result = run("usage", log, "--check", config)
    assert result.exit_code == 1 and "✓" not in result.output, result.output
    for text in expected:
        assert text in result.output


def test_a_ledger_without_head_or_tail_says_which_steps_it_proves(ranks: Written) -> None:
    config, log = ranks
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines if line["steps"] in ([5, 10], [10, 15])))
    result = run("usage", log, "--check", config)
    assert result.exit_code == 0
    assert "proven: steps 5 to 14 of all 3 ranks\n✓ all 120 samples" in result.output


def test_a_ledger_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert "nothing.jsonl" in complaint(run("usage", tmp_path / "nothing.jsonl"))


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_ledger_proves_nothing(written: Written, content: str) -> None:
    config, log = written
    log.write_text(content)
    result = run("usage", log)
    assert (result.exit_code, result.output) == (0, f"{log} is empty: no step was recorded yet\n")
    result = run("usage", log, "--check", config)
    assert result.exit_code == 1 and result.stdout == ""
    assert result.stderr == f"error: {log} is empty: no step was recorded yet, so there is nothing to prove\n"


def test_a_file_without_a_ledger_line_is_no_ledger(written: Written) -> None:
    config, _ = written
    lines = len(config.read_text().splitlines())
    for options in ([], ["--check", config]):
        told = complaint(run("usage", config, *options))
        assert told == f"{config} is not a usage ledger: none of its {lines} lines is valid"


@pytest.mark.parametrize("ahead", [0, 12])
def test_two_processes_of_one_rank_are_not_counted_twice(tmp_path: Path, ahead: int) -> None:
    """As in a tensor parallel group whose feeds were opened with a rank and not with a mesh."""
    config = config_of(tmp_path)
    options: dict[str, Any] = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({**options, "usage": {"log": "usage.jsonl", "every": 5}}))
    loaders = [penstock.open(config, rank=0, world=1).loader(threads=0) for _ in range(2)]
    for step in range(25 + ahead):
        if step < 25:
            next(loaders[0])
        if step >= ahead:
            next(loaders[1])
    for loader in loaders:
        loader.close()
    result = run("usage", tmp_path / "usage.jsonl", "--check", config)
    assert result.exit_code == 0, result.output
    assert "all 300 samples agree with the plan" in result.output
