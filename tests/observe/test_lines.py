"""Reading a ledger: whatever is in the file, a command shows it or says that it is no line, and never a traceback."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.feed import Feed
from penstock.observe.lines import read_lines
from tests.cli.commands import config_of, run
from tests.observe.ledgers import Line

ODD: list[Any] = [
    *(None, True, -1, 0.5, 10**9, 10**400, float("inf"), float("nan"), "", "[/]\x1b[2J", [], {}, [[]], [1, 2, 3]),
    *([10, 10**9], [5, 5], [9, 3], [[0, 0, 10**12]], [[0, 0, 0]], [[3, 0, 9]], {"a": "b"}, {"a": -1}, [{}]),
]


def read(folder: Path, *texts: str) -> list[Line | None]:
    log = folder / "usage.jsonl"
    log.write_text("\n".join(texts), encoding="utf-8")
    return list(read_lines(log))


def test_lines_that_a_run_wrote_are_read_as_they_are(written: tuple[Feed, list[Line]], tmp_path: Path) -> None:
    lines = read(tmp_path, *map(json.dumps, written[1]), "")
    assert json.loads(json.dumps(lines)) == written[1]


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", "{}", "null", "Infinity", "1e999", '"\\ud800"', "\x00", "[" * 100_000, '{"a":' * 100_000),
        "9" * 5_000,
    ],
)
def test_what_is_no_line_is_none(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == [None]


def test_a_line_of_a_billion_steps_is_none(written: tuple[Feed, list[Line]], tmp_path: Path) -> None:
    """Each step has its stall, so that a line is never about more steps than it has bytes."""
    assert read(tmp_path, json.dumps({**written[1][0], "steps": [10, 10**9]})) == [None]


def test_odd_values_in_any_place_never_end_a_command_with_a_traceback(tmp_path: Path) -> None:
    config = config_of(tmp_path, usage={"log": "usage.jsonl", "every": 5, "ids": True})
    with penstock.open(config, rank=0, world=1).loader(threads=0) as loader:
        for _ in range(10):
            next(loader)
    log = tmp_path / "usage.jsonl"
    right = [json.loads(text) for text in log.read_text().splitlines()]
    right[0]["bad"] = [
        {"step": 2, "slot": 1, "row": 3, "group": "a", "id": "b", "reason": "c", "outcome": "replaced", "member": None}
    ]
    item = right[0]["ids"][0][0].split(":")[1]
    draw = random.Random(7)
    for _ in range(60):
        lines = copy.deepcopy(right)
        for line in lines:
            for _ in range(draw.randrange(3)):
                change(line, draw)
        log.write_text("".join(json.dumps(line) + "\n" for line in lines))
        for command in (["usage", log], ["usage", log, "--check", config], ["where", config, item, "--ledger", log]):
            result = run(*command)
            assert result.exception is None or isinstance(result.exception, SystemExit), (command, lines)
            assert result.exit_code in (0, 1, 2) and "Traceback" not in result.output


def change(line: Line, draw: random.Random) -> None:
    """Put an odd value in place of one in a line, or in what the line holds."""
    place: Any = line
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw.choice(keys)
        if not isinstance(place[key], dict | list) or not place[key] or draw.random() < 0.4:
            place[key] = draw.choice(ODD)
            return
        place = place[key]
