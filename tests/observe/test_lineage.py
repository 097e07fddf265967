"""Which lines of a ledger count, and which steps none is about."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.observe.lineage import Lineage, lineage

Line = dict[str, Any]


def line(first: int, after: int, rank: int = 0, world: int = 1) -> Line:
    return {"rank": rank, "world": world, "steps": [first, after]}


def shortened(long: Line, end: int) -> Line:
    return {**long, "steps": [long["steps"][0], end]}


def followed(*lines: Line) -> Lineage:
    return lineage(lines, shortened)


def test_lines_that_follow_each_other_all_count() -> None:
    lines = [line(first, first + 10, rank, 2) for first in (0, 10, 20) for rank in (1, 0)]
    found = followed(*lines)
    assert sorted(map(str, found.lines)) == sorted(map(str, lines))
    assert (found.repeated, found.doubled, found.gaps) == (0, 0, [])


def test_what_is_told_again_counts_as_it_was_told_last() -> None:
    found = followed(line(0, 10), line(10, 20), line(20, 30), line(15, 25))
    assert [each["steps"] for each in found.lines] == [[0, 10], [10, 15], [15, 25]]
    assert (found.repeated, found.gaps) == (15, []), "steps 25 to 29 belong to the life that was given up"


def test_without_a_plan_to_cut_by_it_is_told_how_many_steps_count_twice() -> None:
    found = lineage([line(0, 10), line(10, 20), line(4, 20)])
    assert [each["steps"] for each in found.lines] == [[0, 10], [4, 20]]
    assert (found.repeated, found.doubled) == (16, 6)


def test_a_run_that_went_back_to_other_ranks_replaces_all_of_them() -> None:
    found = followed(line(0, 10, 0, 2), line(0, 10, 1, 2), line(6, 16, 0, 3), line(6, 16, 2, 3), line(6, 16, 1, 3))
    assert [each["steps"] for each in found.lines] == [[0, 6], [0, 6], [6, 16], [6, 16], [6, 16]]
    assert (found.repeated, found.gaps) == (8, [])


def test_ranks_come_and_go_without_a_gap() -> None:
    assert followed(line(0, 10, 0, 2), line(10, 20), line(20, 30, 0, 2)).gaps == []


def test_a_missing_line_is_told_with_its_rank() -> None:
    lines = [line(0, 10, 0, 2), line(0, 10, 1, 2), line(10, 20, 1, 2), line(20, 30, 0, 2), line(20, 30, 1, 2)]
    assert followed(*lines).gaps == ["rank 0 of 2: no line is about steps 10:20"]


def test_steps_that_all_ranks_lack_are_told_once() -> None:
    lines = [line(0, 10, 0, 2), line(0, 10, 1, 2), line(12, 20, 0, 3), line(12, 20, 1, 3), line(12, 20, 2, 3)]
    assert followed(*lines).gaps == ["no line is about steps 10:12"]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), min_size=1), st.integers(1, 5))
def test_whatever_restarts_there_were_every_step_counts_once(lives: list[tuple[int, int]], every: int) -> None:
    """Each life begins at a step that is known and goes on for some; ``now`` is what a model has seen."""
    lines, now = list[Line](), list[int]()
    for life, (start, steps) in enumerate(lives):
        start = min(start, len(now))
        for first in range(start, start + steps, every):
            lines.append({**line(first, min(first + every, start + steps)), "life": life})
        now = now[:start] + [life] * steps
    found = followed(*lines)
    seen = sorted((step, each["life"]) for each in found.lines for step in range(*each["steps"]))
    assert seen == list(enumerate(now)) and found.gaps == []
    assert found.repeated == sum(steps for _, steps in lives) - len(now)
