"""Checks a ledger against the plan, which alone determines what a line should contain. Reads no data."""

from collections.abc import Iterable, Iterator
from dataclasses import astuple
from itertools import zip_longest
from typing import NamedTuple

from penstock.feed import Feed
from penstock.observe.coverage import covered
from penstock.observe.lineage import Lineage
from penstock.observe.lines import BadEntry, LedgerLine, line_timeline
from penstock.observe.runlog import is_run_of
from penstock.plan.order import Planned
from penstock.plan.windowtimeline import AnyTimeline

_LEFT_OUT = ("replaced", "empty")  # outcomes of samples that are not in the batch; earlier versions wrote no `empty`
_OUTCOMES = (*_LEFT_OUT, "padded", "skipped")
_STEPS_AT_ONCE = 128
_MAX_LINE_SAMPLES = 1 << 24  # a line with more is damaged, and would take minutes


class _Used(NamedTuple):
    """The samples of a step by the plan.

    Attributes:
        rows: Rows by slot; -1 for padding.
        names: ``group:id`` by slot, empty for padding; an empty list if the line has no ids.
    """

    rows: list[int]
    names: list[str]


class Proof(NamedTuple):
    """The result of checking a ledger.

    Attributes:
        wrong: Descriptions of what is missing or contradicts the plan; empty if everything is proven.
        proven: Descriptions of the steps and ranks whose lines agree with the plan.
    """

    wrong: list[str]
    proven: list[str]


def prove(feed: Feed, lines: Iterable[LedgerLine | None], lineage: Lineage) -> Proof:
    """Check each line against the plan, and that all lines together cover all steps of all ranks.

    Args:
        feed: Feed of the run.
        lines: Lines that ``read_lines`` yields, including those that no longer count.
        lineage: Lines that count.
    """
    wrong: list[str] = []
    refuted: set[int] = set()  # id() of lines
    counted = {id(line) for line, _ in lineage.kept}
    for number, line in enumerate(lines, 1):
        if line is not None and id(line) not in counted and _before_a_change(feed, line):
            continue
        texts = [f"line {number} is not a ledger line"] if line is None else differences(feed, line)
        wrong += texts
        if texts:
            refuted.add(id(line))
    for line, text in _cut_otherwise(lineage.kept):
        wrong.append(text)
        refuted.add(id(line))
    wrong += lineage.gaps
    if lineage.given_up is not None:
        first, after = lineage.given_up
        wrong.append(f"steps {first}:{after} were reported before the run resumed from an earlier step, but not after")
    return Proof(wrong, covered(lineage.spans(refuted)))


def _cut_otherwise(kept: list[tuple[LedgerLine, int]]) -> Iterator[tuple[LedgerLine, str]]:
    """Yield the lines whose batch sizes contradict those of the last line."""
    newest, _ = max(kept, key=lambda pair: pair[1])
    timeline = line_timeline(newest)
    for line, end in kept:
        own = line_timeline(line)
        first = line["steps"][0]
        changes = [step for each in (own, timeline) for step, *_ in each.segments if first < step < end]
        if any(own.signature(step) != timeline.signature(step) for step in (first, end - 1, *changes)):
            yield line, f"{_where(line)}: its batch sizes contradict those of the last line"


def differences(feed: Feed, line: LedgerLine) -> list[str]:
    """Compare a line with the plan.

    Only which samples were bad is taken from the line. Substitutes and everything else follow from the plan.

    Returns:
        A description of each difference; empty if line and plan agree.
    """
    where = _where(line)
    if not of_this_run(feed, line):
        return [f"{where}: written by another run (seed, data, mixture or exclude differ)"]
    impossible = _impossible(feed, line)
    return [f"{where}: {text}" for text in ([impossible] if impossible else _misreported(feed, line))]


def _where(line: LedgerLine) -> str:
    return "rank {rank}, steps {steps[0]}:{steps[1]}".format_map(line)


def _impossible(feed: Feed, line: LedgerLine) -> str | None:
    """Return why the run cannot have written a line; None if it can. Plans no batch."""
    timeline = line_timeline(line)
    end = feed.plan.steps(timeline)
    if end is not None and line["steps"][1] > end:
        return f"the run has only {end} steps"
    try:
        rows = sum(feed.plan.rows(step, line["rank"], line["world"], timeline) for step in range(*line["steps"]))
    except ValueError as error:
        return str(error)
    if line["samples"] > rows or rows > _MAX_LINE_SAMPLES:
        return f"{line['samples']} samples, but its batches have {rows}"
    return None


def cut(feed: Feed, line: LedgerLine, end: int) -> LedgerLine:
    """Return a line as it would be if it ended at an earlier step. A line of another run is returned unchanged."""
    if not of_this_run(feed, line) or _impossible(feed, line):
        return line
    first = line["steps"][0]
    part = line.copy()
    part["steps"] = [first, end]
    part["bad"] = [bad for bad in line["bad"] if bad["step"] < end]
    sources, groups = feed.catalog.count([row for used in _used(feed, part, []) for row in used.rows])
    part["samples"] = sum(sources.values())
    part["sources"] = dict(sources)
    part["groups"] = dict(groups)
    if "ids" in line:
        part["ids"] = line["ids"][: end - first]
    return part


def of_this_run(feed: Feed, line: LedgerLine) -> bool:
    """Return whether the run of a feed wrote a line."""
    return is_run_of(feed, line, line["steps"][1])


def _before_a_change(feed: Feed, line: LedgerLine) -> bool:
    """Return whether a line differs from the run in sources and mixture alone.

    The run may have resumed from before the line with another source: its plan then has other samples there.
    """
    same = ("seed", "run")
    return not of_this_run(feed, line) and all(
        line["fingerprint"].get(name) == getattr(feed.identity, name) for name in same
    )


def _used(feed: Feed, line: LedgerLine, found: list[str]) -> Iterator[_Used]:
    """Yield the samples of each step of a line, by the plan.

    Args:
        feed: Feed of the run.
        line: Line of the ledger.
        found: List to which descriptions of bad samples that contradict the plan are added.
    """
    bad: dict[int, dict[int, list[BadEntry]]] = {}
    for each in line["bad"]:
        bad.setdefault(each["step"], {}).setdefault(each["slot"], []).append(each)
    rank = (line["rank"], line["world"])
    timeline = line_timeline(line)
    for steps in _blocks(range(*line["steps"])):  # one by one, the plan of 8 ranks would take 20 times as long
        planned = feed.plan.batches(steps, *rank, timeline)
        rows = feed.catalog.rows(planned)
        names = feed.catalog.item_names(planned) if "ids" in line else []
        end = 0
        for step in steps:
            own = slice(end, end + feed.plan.rows(step, *rank, timeline))
            end = own.stop
            here = _Used(rows[own], names[own])
            for slot, said in bad.get(step, {}).items():
                planned_here = Planned(*(column[own] for column in astuple(planned)))
                wrong = _contradiction(feed, planned_here, timeline, here, slot, said)
                found += [f"step {step}, slot {slot}: {wrong}"] if wrong else []
            yield here


def _blocks(steps: range) -> Iterator[range]:
    return (steps[at : at + _STEPS_AT_ONCE] for at in range(0, len(steps), _STEPS_AT_ONCE))


def _contradiction(
    feed: Feed, planned: Planned, timeline: AnyTimeline, used: _Used, slot: int, said: list[BadEntry]
) -> str | None:
    """Return how the bad samples of a slot contradict the plan. Writes the final substitute into ``used``."""
    if slot >= len(used.rows) or used.rows[slot] < 0:
        return "a bad sample where the plan has no sample"
    unknown = [each["outcome"] for each in said if each["outcome"] not in _OUTCOMES]
    if unknown:
        return f"a bad sample has the outcome {unknown[0]!r}, which is not one of {', '.join(_OUTCOMES)}"
    left = [each for each in said if each["outcome"] in _LEFT_OUT]
    tried = [*_tried(feed, int(planned.slot[slot]), len(left), timeline, used, slot), used.rows[slot]]
    if [each["row"] for each in left] != tried[:-1] or any(each["row"] not in tried for each in said):
        return "the bad samples are not those of the plan"
    if any(each["outcome"] == "empty" for each in left) and tried[-1] >= 0:
        return "a bad sample left its place empty, but the plan has a substitute"
    epoch = int(planned.epoch[slot])
    for each in said:
        name = feed.catalog.item_name(each["row"], epoch, int(planned.slot[slot]))
        if each.get("member") is None and name != f"{each['group']}:{each['id']}":
            return f"the bad sample is {name}, not {each['group']}:{each['id']}"
    return None


def _tried(feed: Feed, planned_slot: int, attempts: int, timeline: AnyTimeline, used: _Used, slot: int) -> list[int]:
    """Return the rows that the plan tries in a slot before the final one, which is written into ``used``."""
    tried = [used.rows[slot]]
    for attempt in range(1, attempts + 1):
        instead = feed.plan.cut(timeline).stand_in(planned_slot, attempt)
        tried.append(-1 if instead is None else feed.catalog.rows(instead)[0])
        if used.names:
            used.names[slot] = "" if instead is None else feed.catalog.item_names(instead)[0]
    used.rows[slot] = tried[-1]
    return tried[:-1]


def _misreported(feed: Feed, line: LedgerLine) -> list[str]:
    """Return descriptions of how a line differs from the plan: bad samples, counts and ids."""
    found: list[str] = []
    ids: list[str] = []
    nothing: list[str] = []
    rows: list[int] = []
    reported = iter(line.get("ids", ()))
    for step, used in enumerate(_used(feed, line, found), line["steps"][0]):
        rows += used.rows
        if "ids" in line:
            ids += _misnamed(step, used.names, next(reported, nothing))
    ids += [f"step {line['steps'][1] + at} planned nothing, used {names}" for at, names in enumerate(reported)]
    sources, groups = feed.catalog.count(rows)
    for what, said, planned in (("source", line["sources"], sources), ("group", line["groups"], groups)):
        if said != planned:
            names = sorted(name for name in said.keys() | planned.keys() if said.get(name, 0) != planned.get(name, 0))
            counts = ", ".join(f"{name} {said.get(name, 0)} (planned {planned.get(name, 0)})" for name in names[:3])
            found.append(f"samples per {what} differ: {counts}{' …' if names[3:] else ''}")
    samples = sum(sources.values())
    if line["samples"] != samples:
        found.append(f"{line['samples']} samples, planned {samples}")
    return found + ids


def _misnamed(step: int, ours: list[str], theirs: list[str]) -> list[str]:
    if len(theirs) < len(ours):  # with several recipes, no recipe has the padding
        ours = list(filter(None, ours))
        theirs = list(filter(None, theirs))
    pairs = zip_longest(ours, theirs, fillvalue="")
    return [f"step {step} planned {a or 'nothing'}, used {b or 'nothing'}" for a, b in pairs if a != b]
