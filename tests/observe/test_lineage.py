"""Which lines of a ledger count, and which steps none is about."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.observe.lineage import Lineage, lineage

Line = dict[str, Any]


def line(first: int, after: int, rank: int = 0, world: int = 1, *, walk: str = "", worker: int = 0) -> Line:
    return {"rank": rank, "world": world, "walk": walk, "worker": worker, "steps": [first, after]}


def turns(walk: str, steps: range, workers: int, rank: int = 0, world: int = 1) -> list[list[Line]]:
    """What each of some workers writes that take turns at steps: a line per step."""
    return [
        [line(step, step + 1, rank, world, walk=walk, worker=worker) for step in steps[worker::workers]]
        for worker in range(workers)
    ]


def counted(found: Lineage) -> list[tuple[int, str]]:
    """The steps that count, and of which walk."""
    return sorted((step, each["walk"]) for each in found.lines for step in range(*each["steps"]))


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
    two = [line(first, first + 10, rank, 2) for first in (0, 20) for rank in range(2)]
    assert followed(*two[:2], line(10, 20), *two[2:]).gaps == []


def test_a_rank_without_any_line_is_missing() -> None:
    assert followed(line(0, 10, 0, 4), line(10, 20), line(20, 30, 1, 4)).gaps == [
        "rank 0 of 4: no line covers steps 20:30",
        "rank 1 of 4: no line covers steps 0:10",
        "ranks 2 to 3 of 4: no line covers steps 0:10",
        "ranks 2 to 3 of 4: no line covers steps 20:30",
    ]


def test_steps_that_only_an_earlier_life_reported_are_given_up() -> None:
    assert followed(line(0, 10), line(10, 20), line(5, 12)).given_up == (12, 20)
    assert followed(line(0, 10), line(10, 20), line(5, 20)).given_up is None
    ahead = turns("a", range(9), 2)[0]  # the other worker made none: the trainer got step 0 alone
    assert counted(followed(*ahead)) == [(0, "a")] and followed(*ahead).given_up is None


def test_a_walk_over_ever_so_many_steps_ends_in_bounded_time() -> None:
    found = followed(*turns("a", range(4), 2)[0], *turns("a", range(4), 2)[1], line(10**18, 10**18 + 1, walk="a"))
    assert (0, "a") in counted(found)


def test_a_missing_line_is_told_with_its_rank() -> None:
    lines = [line(0, 10, 0, 2), line(0, 10, 1, 2), line(10, 20, 1, 2), line(20, 30, 0, 2), line(20, 30, 1, 2)]
    assert followed(*lines).gaps == ["rank 0 of 2: no line covers steps 10:20"]


def test_steps_that_all_ranks_lack_are_told_once() -> None:
    lines = [line(0, 10, 0, 2), line(0, 10, 1, 2), line(12, 20, 0, 3), line(12, 20, 1, 3), line(12, 20, 2, 3)]
    assert followed(*lines).gaps == ["no line covers steps 10:12"]


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


@given(st.data())
def test_workers_of_a_walk_do_not_take_each_others_steps_back_whatever_the_order_of_their_lines(
    data: st.DataObject,
) -> None:
    lines = data.draw(interleaved(turns("a", range(12), data.draw(st.integers(1, 4)))))
    found = followed(*lines)
    assert counted(found) == [(step, "a") for step in range(12)]
    assert (found.repeated, found.doubled, found.gaps) == (0, 0, [])


@st.composite
def interleaved(draw: st.DrawFn, queues: list[list[Line]]) -> list[Line]:
    """Lines of several processes in some order; those of one process stay in theirs."""
    numbers = [number for number, queue in enumerate(queues) for _ in queue]
    rest = [iter(queue) for queue in queues]
    return [next(rest[number]) for number in draw(st.permutations(numbers))]


def test_a_walk_that_begins_earlier_takes_back_what_comes_after() -> None:
    first = turns("a", range(10), 2)
    second = turns("b", range(5, 9), 3)
    found = followed(*first[1], *first[0], *second[2], *second[0], *second[1])
    assert counted(found) == [*((step, "a") for step in range(5)), *((step, "b") for step in range(5, 9))]
    assert (found.repeated, found.gaps) == (5, [])


def test_a_walk_takes_back_nothing_before_its_first_step() -> None:
    lines = [
        each for walk, steps in (("a", range(6)), ("b", range(6, 9))) for own in turns(walk, steps, 2) for each in own
    ]
    found = followed(*lines)
    assert counted(found) == [*((step, "a") for step in range(6)), *((step, "b") for step in range(6, 9))]
    assert (found.repeated, found.gaps) == (0, [])


def test_the_workers_of_another_rank_take_nothing_back_those_of_another_world_do() -> None:
    ranks = [each for rank in range(2) for own in turns("a", range(8), 2, rank, 2) for each in own]
    assert followed(*ranks).repeated == 0
    assert len(followed(*ranks).lines) == 16
    alone = [each for own in turns("b", range(6, 8), 2) for each in own]
    found = followed(*ranks, *alone)
    assert (len(found.lines), found.repeated, found.gaps) == (2 * 6 + 2, 4, [])


def test_a_walk_of_workers_and_one_without_take_each_others_steps_back() -> None:
    workers = [each for own in turns("a", range(4, 8), 2) for each in own]
    found = followed(line(0, 6), *workers, line(6, 9))
    assert [(each["steps"], each["walk"]) for each in sorted(found.lines, key=lambda each: each["steps"][0])] == [
        ([0, 4], ""),
        ([4, 5], "a"),
        ([5, 6], "a"),
        ([6, 9], ""),
    ]
    assert (found.repeated, found.gaps) == (4, [])


def test_a_step_that_no_worker_has_told_of_is_a_gap() -> None:
    even, odd = turns("a", range(6), 2)
    assert followed(*even, *odd[:1], *odd[2:]).gaps == ["no line covers steps 3:4"]


def test_what_workers_made_ahead_at_the_end_and_never_handed_out_does_not_count() -> None:
    first, second, third = turns("a", range(12), 3)
    found = followed(*first[:4], *second[:2], *third[:3])  # 0, 3, 6, 9; 1, 4; 2, 5, 8
    assert counted(found) == [(step, "a") for step in range(7)], "7 was never made, so 8 and 9 were not handed out"
    assert (found.repeated, found.doubled, found.gaps) == (0, 0, [])
    assert counted(followed(*first[:2], *third[:1])) == [(0, "a")], "the second worker came to nothing"


def test_what_workers_made_ahead_of_another_rank_does_not_count() -> None:
    ranks = [
        each for rank, end in ((0, 9), (1, 14)) for own in turns(f"{rank}", range(end), 2, rank, 2) for each in own
    ]
    found = followed(*ranks)
    assert counted(found) == [(step, walk) for step in range(9) for walk in ("0", "1")]
    assert (found.ahead, found.gaps) == (5, [])
    assert followed(*(line(0, end, rank, 2) for rank, end in ((0, 9), (1, 14)))).gaps == [
        "rank 0 of 2: no line covers steps 9:14"  # without workers, only what was handed out is reported
    ]


def test_more_than_workers_make_ahead_is_missing() -> None:
    even, odd = turns("a", range(100), 2)
    assert followed(*even, *odd[:33]).ahead == 16 and followed(*even, *odd[:33]).gaps == []
    assert followed(*even, *odd[:32]).gaps[0] == "no line covers steps 65:66"
    ranks = [turns("a", range(end), 2, rank, 2) for rank, end in ((0, 60), (1, 100))]
    found = followed(*(each for rank in ranks for own in rank for each in own))
    assert (found.ahead, found.gaps) == (0, ["rank 0 of 2: no line covers steps 60:100"])


def test_what_an_earlier_life_made_ahead_is_not_given_up() -> None:
    before = [each for own in turns("a", range(12), 2) for each in own]
    assert followed(*before, line(5, 8)).given_up is None
    longer = [each for own in turns("a", range(60), 2) for each in own]
    assert followed(*longer, line(5, 8)).given_up == (8, 28)


@given(st.data())
def test_whatever_restarts_of_however_many_workers_there_were_every_step_counts_once(data: st.DataObject) -> None:
    """Each life hands out some steps; its workers have then made some more, each for itself."""
    lives = data.draw(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9), st.integers(2, 4)), min_size=1))
    lines: list[Line] = []
    now: list[str] = []
    starts: list[int] = []
    for life, (start, steps, workers) in enumerate(lives):
        start = min(start, len(now))
        starts.append(start)
        made = turns(f"walk {life}", range(start, start + steps + 30), workers)
        used = [len(range(start, start + steps)[worker::workers]) for worker in range(workers)]
        written = [own[: data.draw(st.integers(least, least + 3))] for own, least in zip(made, used, strict=True)]
        lines += data.draw(interleaved(written))
        now = now[:start] + [f"walk {life}"] * steps
    found = followed(*lines)
    seen = counted(found)
    assert seen[: len(now)] == list(enumerate(now)) and found.gaps == []
    assert seen[len(now) :] == [(len(now) + more, now[-1]) for more in range(len(seen) - len(now))], "the last life's"
    later = {f"walk {life}": min(starts[life + 1 :], default=math.inf) for life in range(len(lives))}
    assert found.repeated == sum(each["steps"][0] >= later[each["walk"]] for each in lines)


def test_all_steps_of_a_single_worker_count() -> None:
    found = lineage([line(0, 10, walk="walk"), line(10, 14, walk="walk")])
    assert (len(found.lines), found.ahead, found.gaps) == (2, 0, [])
