"""Two runs compared: the first step that differs, and why."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock
from penstock.observe.diff import Difference, compare, plans
from penstock.observe.reasons import reasons
from tests.cli.commands import run
from tests.shards import small_run, write_shards

MIXTURES = [{"weights": "equal"}, {"at": 120, "weights": {"bengali": 1}}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)
    lines = (folder / "train.tsv").read_text().splitlines(keepends=True)
    (folder / "less.tsv").write_text("".join(line for line in lines if "\tbengali_1_3\t" not in line))
    return folder


def opened(folder: Path, **options: Any) -> penstock.Feed:
    return penstock.open(small_run(folder, **{"global_batch_size": 6, **options}), rank=0, world=1)


def compared(one: penstock.Feed, other: penstock.Feed, steps: int = 40) -> Difference:
    *_, last = compare(*plans(one, other), range(steps))
    return last


def batch_ids(feed: penstock.Feed, step: int) -> list[str]:
    return [f"{line.group}:{line.item}" for line in feed.lines(step)]


def test_a_run_is_equal_to_itself(folder: Path) -> None:
    found = compared(opened(folder), opened(folder))
    assert (found.equal, found.first, found.only) == (40, None, ([], []))
    assert reasons(opened(folder), opened(folder)) == []


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"seed": 1}, ["seed: 0 in A, 1 in B"]),
        ({"pool": 3}, ["pool: 2 in A, 3 in B"]),
        ({"lanes": 2}, ["lanes: 1 in A, 2 in B"]),
        ({"global_batch_size": 12}, ["global batch size: 6 in A, 12 in B"]),
        ({"shuffle": False}, ["run: endless in A, endless, in file order in B", "pool: 2 in A, None in B"]),
        ({"passes": 1}, ["run: endless in A, 1 passes in B"]),
        (
            {"mixture": {"weights": {"bengali": 1, "gujarati": 1}}},
            [
                "mixture: from sample 0 on, assamese 0.3333 in A, 0 in B; bengali 0.3333 in A, 0.5 in B; "
                "gujarati 0.3333 in A, 0.5 in B"
            ],
        ),
    ],
)
def test_the_first_difference_is_that_of_the_batches(folder: Path, options: dict[str, Any], why: list[str]) -> None:
    one, other = opened(folder), opened(folder, **options)
    steps = 6
    found = compared(one, other, steps)
    mine, theirs = ([batch_ids(feed, step) for step in range(steps)] for feed in (one, other))
    differing = [step for step in range(steps) if mine[step] != theirs[step]]
    assert found.first is not None and found.first.step == differing[0]
    assert found.equal == steps - len(differing)
    slot = found.first.slot
    assert found.first.items == (mine[differing[0]][slot], theirs[differing[0]][slot])
    seen = [{name for batch in each for name in batch} for each in (mine, theirs)]
    assert [set(names) for names in found.only] == [seen[0] - seen[1], seen[1] - seen[0]]
    assert found.common == len(seen[0] & seen[1])
    assert reasons(one, other) == why


def test_runs_are_equal_until_their_mixtures_differ(folder: Path) -> None:
    one, other = opened(folder), opened(folder, mixture=MIXTURES)
    found = compared(one, other)
    assert found.first is not None and found.first.step == 20 and found.equal == 20
    assert reasons(one, other) == ["mixture: it changes at sample 120 in only one of them"]


def test_excluded_items_are_the_reason(folder: Path) -> None:
    one, other = opened(folder), opened(folder, exclude=[{"items": ["bengali_1_3"]}])
    found = compared(one, other)
    assert [name.partition(":")[2] for name in found.only[0]] == ["bengali_1_3"]
    assert reasons(one, other) == ["exclude: differs from sample 0 on"]


def test_one_item_less_is_named(folder: Path) -> None:
    one, other = opened(folder), opened(folder, filelist=folder / "less.tsv")
    assert reasons(one, other) == ["data of bengali: items 1 only in A (bengali-1.tar:bengali_1_3)"]
    assert compared(one, other).only == (["bengali-1.tar:bengali_1_3"], [])


def test_a_batch_in_another_order_is_counted(folder: Path) -> None:
    one = opened(folder, passes=1, shuffle=False, global_batch_size=36, drop_last=False)
    other = opened(folder, passes=1, seed=3, global_batch_size=36)
    assert compared(one, other, 1).reordered == 1


def write_config(folder: Path, path: Path, **options: Any) -> Path:
    keys = json.loads(json.dumps(small_run(folder, **{"global_batch_size": 6, **options}), default=str))
    path.write_text(yaml.safe_dump(keys))
    return path


def test_the_command_compares_configs(folder: Path, tmp_path: Path) -> None:
    one = write_config(folder, tmp_path / "a.yaml")
    other = write_config(folder, tmp_path / "b.yaml", mixture=MIXTURES)
    same = run("diff", one, one)
    assert (same.exit_code, same.stdout) == (0, "A and B are the same run: 10,000 steps compared, 0:10000.\n")
    differing = run("diff", one, other, "--steps", "25")
    assert differing.exit_code == 1
    assert differing.stdout.startswith("A and B differ from step 20 on: sample ")
    assert "- mixture: it changes at sample 120 in only one of them\n" in differing.stdout
    assert "Of 25 steps (0:25), 20 are equal (80.0%).\n" in differing.stdout
    read = json.loads(run("diff", one, other, "--steps", "25", "--json").stdout)
    assert (read["steps"], read["equal"], read["first"]["step"]) == ([0, 25], 20, 20)


def test_the_command_compares_ledgers_and_states(folder: Path, tmp_path: Path) -> None:
    config = write_config(folder, tmp_path / "a.yaml")
    other = write_config(folder, tmp_path / "b.yaml", seed=1)
    log = tmp_path / "log.jsonl"
    with opened(folder, usage={"log": log, "ids": True, "every": 2}).loader() as loader:
        for _ in range(7):
            next(loader)
        (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    assert run("diff", log, config).stdout == "A and B are the same run: 7 steps compared, 0:7.\n"
    assert run("diff", other, log).stdout.startswith("A and B differ from step 0 on")
    assert run("diff", tmp_path / "state.json", config).stdout == "A and B belong to the same run.\n"
    assert run("diff", tmp_path / "state.json", other).stdout == "A and B differ in:\n- seed (0 then, 1 now)\n"
    (tmp_path / "later.json").write_text(json.dumps(opened(folder).state(9)))
    assert run("diff", tmp_path / "state.json", tmp_path / "later.json").exit_code == 0
    without = opened(folder, exclude=[{"items": ["bengali_1_3"]}])
    (tmp_path / "without.json").write_text(json.dumps(without.state(7)))
    said = run("diff", tmp_path / "state.json", tmp_path / "without.json")
    assert (said.exit_code, said.stdout.count("exclude: None in A")) == (1, 1)


def test_bad_input_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    config = write_config(folder, tmp_path / "a.yaml")
    log = tmp_path / "log.jsonl"
    with opened(folder, usage={"log": log}).loader() as loader:
        next(loader)
    (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    assert "lines without ids cannot be compared; log them with `usage: {ids: true}`" in run("diff", log, config).stderr
    assert "is a state and" in run("diff", tmp_path / "state.json", log).stderr
    assert "neither a config (.yaml), a saved state (JSON) nor" in run("diff", folder / "train.tsv", config).stderr
