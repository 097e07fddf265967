"""The ledgers of a run, read as one: the same steps count as line by line, and few spans are kept of many lines."""

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from penstock.observe.lineage import Lineage, lineage
from penstock.observe.lines import read_lines
from penstock.observe.proof import of_this_run
from penstock.observe.runlog import RunLog
from tests.feed.test_identity import earlier_form
from tests.observe.test_lineage import Line, line, turns
from tests.observe.trained import trained


def read(lines: Sequence[Line]) -> RunLog:
    with TemporaryDirectory() as folder:
        log = Path(folder) / "usage.jsonl"
        heads = ({"time": float(at), "fingerprint": {"seed": 1}, **each} for at, each in enumerate(lines))
        log.write_text("".join(json.dumps(head) + "\n" for head in heads))
        return RunLog([log])


def counted(found: Lineage) -> list[tuple[int, int, int, str]]:
    """The steps that count, with world, rank and walk."""
    return sorted(
        (each["world"], each["rank"], step, each["walk"])
        for each, end in found.kept
        for step in range(*each["steps"])
        if step < end
    )


@st.composite
def lives(draw: st.DrawFn) -> list[Line]:
    """Lines of a run that is resumed, each time with other ranks and with or without workers."""
    lines: list[Line] = []
    step = 0
    for life in range(draw(st.integers(1, 3))):
        world = draw(st.integers(1, 2))
        workers = draw(st.integers(0, 3))
        steps = range(step, step + draw(st.integers(1, 12)))
        writers = [
            written
            for rank in range(world)
            for written in (
                turns(f"walk {life}", steps, workers, rank, world)
                if workers
                else [[line(first, min(first + 3, steps.stop), rank, world) for first in steps[::3]]]
            )
        ]
        while any(writers):
            writer = draw(st.sampled_from([each for each in writers if each]))
            lines.append(writer.pop(0))
        step = draw(st.integers(max(0, step - 2), steps.stop))
    return [each for each in lines if draw(st.integers(0, 9))] or lines  # some are lost


@given(lives())
def test_the_same_steps_count_as_line_by_line(lines: list[Line]) -> None:
    one_by_one = lineage(lines)
    found = read(lines).used
    assert counted(found) == counted(one_by_one)
    assert (found.repeated, found.ahead, found.gaps) == (one_by_one.repeated, one_by_one.ahead, one_by_one.gaps)
    assert found.spans() == one_by_one.spans()


def test_the_lines_of_a_worker_are_one_span() -> None:
    workers = turns("walk", range(10_000), 4)
    lines = [each for four in zip(*workers, strict=True) for each in four]
    log = read(lines)
    assert log.lines == 10_000 and len(log.used.kept) == 4 and log.used.gaps == []
    assert log.used.spans() == {(1, 0): [(0, 10_000)]}


def test_ledgers_of_earlier_releases_which_knew_all_sources_are_of_this_run(damaged: Path, tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    mixture = {"weights": {"assamese": 1, "bengali": 1, "gujarati": 0}}
    feed = trained(damaged, log, mixture=mixture)
    text = log.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    for each in lines:
        each["fingerprint"] = earlier_form(feed.identity, 9 * max(each["steps"]))
    log.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    assert log.read_text() != text, "else this test shows nothing"
    assert RunLog([log], feed).lines == len(lines)
    assert all(line is not None and of_this_run(feed, line) for line in read_lines(log))
