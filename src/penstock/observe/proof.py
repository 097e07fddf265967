"""Whether a ledger agrees with the plan: what a line should contain follows from the plan alone."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

from penstock.feed import Feed
from penstock.observe.coverage import covered
from penstock.observe.lineage import Line, Lineage
from penstock.observe.lines import line_timeline
from penstock.plan.order import Planned

_LEFT = ("replaced", "empty")  # outcomes of samples that are not in the batch; earlier versions wrote no `empty`
_OUTCOMES = (*_LEFT, "padded", "skipped")
_MOST_SAMPLES = 1 << 24  # per line: a line that claims more is damage, and would take minutes


class _Used(NamedTuple):
    """What a step used, by the plan: rows, and ``group:id`` if the line has ids; -1 and empty for padding."""

    rows: list[int]
    names: list[str]


class Proof(NamedTuple):
    """What the lines of a ledger prove.

    Attributes:
        wrong: descriptions of what is missing or contradicts the plan; empty if everything is proven.
        proven: descriptions of the steps and ranks whose lines agree with the plan.
    """

    wrong: list[str]
    proven: list[str]


def prove(feed: Feed, lines: Iterable[Line | None], lineage: Lineage) -> Proof:
    """Check a ledger against the plan: each line, and that together they are about all steps of all ranks.

    Args:
        feed: the feed of the run.
        lines: what ``read_lines`` yields. Those that no longer count are checked as well.
        lineage: those that count.
    """
    wrong: list[str] = []
    refuted: set[int] = set()  # ids of lines
    for number, line in enumerate(lines, 1):
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
        wrong.append(f"steps {first}:{after} were reported before the run went back to an earlier step, and not again")
    return Proof(wrong, covered(lineage.spans(refuted)))


def _cut_otherwise(kept: list[tuple[Line, int]]) -> Iterator[tuple[Line, str]]:
    """Yield the lines whose batches are not those that the last line says of the same steps."""
    newest, _ = max(kept, key=lambda pair: pair[1])
    timeline = line_timeline(newest)
    for line, end in kept:
        own = line_timeline(line)
        first = line["steps"][0]
        changes = [step for each in (own, timeline) for step, _, _ in each.segments if first < step < end]
        if any(own.batch(step) != timeline.batch(step) for step in (first, end - 1, *changes)):
            yield line, f"{_where(line)}: its batch sizes contradict those of the last line"


def differences(feed: Feed, line: Line) -> list[str]:
    """Compare a line with the plan.

    Which samples were bad is taken from the line. Their substitutes, and all else, follow from the plan.

    Returns:
        A description of each difference; empty if the line and the plan agree.
    """
    where = _where(line)
    if not of_this_run(feed, line):
        return [f"{where}: written by another run (seed, data or mixture differ)"]
    impossible = _impossible(feed, line)
    return [f"{where}: {text}" for text in ([impossible] if impossible else _misreported(feed, line))]


def _where(line: Line) -> str:
    return "rank {rank}, steps {steps[0]}:{steps[1]}".format_map(line)


def _impossible(feed: Feed, line: Line) -> str | None:
    """Return why a run can't have such a line: found without planning any of its batches."""
    timeline = line_timeline(line)
    end = feed.plan.steps(timeline)
    if end is not None and line["steps"][1] > end:
        return f"the run has only {end} steps"
    try:
        rows = sum(feed.plan.rows(step, line["rank"], line["world"], timeline) for step in range(*line["steps"]))
    except ValueError as error:
        return str(error)
    if line["samples"] > rows or rows > _MOST_SAMPLES:
        return f"{line['samples']} samples in batches of {rows} in all"
    return None


def cut(feed: Feed, line: Line, end: int) -> Line:
    """Return the line as it would be if it ended at an earlier step. A line of another run is returned unchanged."""
    if not of_this_run(feed, line) or _impossible(feed, line):
        return line
    first = line["steps"][0]
    part = {**line, "steps": [first, end], "bad": [bad for bad in line["bad"] if bad["step"] < end]}
    sources: Counter[str] = Counter()
    groups: Counter[str] = Counter()
    for used in _used(feed, part, []):
        own_sources, own_groups = feed.catalog.count(used.rows)
        sources.update(own_sources)
        groups.update(own_groups)
    part |= {"samples": sum(sources.values()), "sources": dict(sources), "groups": dict(groups)}
    return part | ({"ids": line["ids"][: end - first]} if "ids" in line else {})


def of_this_run(feed: Feed, line: Line) -> bool:
    """Return whether a line was written by the run of this feed."""
    fingerprint = feed.identity.fingerprint(line_timeline(line).batch(line["steps"][1])[0])
    return bool(line["fingerprint"] == fingerprint) and line.get("epoch") == feed.plan.epoch


def _used(feed: Feed, line: Line, found: list[str]) -> Iterator[_Used]:
    """Yield what each step of a line used, by the plan.

    Args:
        feed: the feed of the run.
        line: the line.
        found: gets descriptions of bad samples that contradict the plan.
    """
    bad: dict[int, dict[int, list[dict[str, Any]]]] = {}
    for each in line["bad"]:
        bad.setdefault(each["step"], {}).setdefault(each["slot"], []).append(each)
    timeline = line_timeline(line)
    for step in range(*line["steps"]):
        planned = feed.plan.batch(step, line["rank"], line["world"], timeline)
        names = feed.catalog.item_names(planned) if "ids" in line else []
        here = _Used(feed.catalog.rows(planned), names)
        for slot, said in bad.get(step, {}).items():
            wrong = _contradiction(feed, planned, here, slot, said)
            found += [f"step {step}, slot {slot}: {wrong}"] if wrong else []
        yield here


def _contradiction(feed: Feed, planned: Planned, used: _Used, slot: int, said: list[dict[str, Any]]) -> str | None:
    """Return how the bad samples of a slot contradict the plan. What is used instead is written into ``used``."""
    if slot >= len(used.rows) or used.rows[slot] < 0:
        return "a bad sample where the plan has no sample"
    unknown = [each["outcome"] for each in said if each["outcome"] not in _OUTCOMES]
    if unknown:
        return f"a bad sample with the outcome {unknown[0]!r}; there are {', '.join(_OUTCOMES)}"
    left = [each for each in said if each["outcome"] in _LEFT]
    tried = [*_tried(feed, int(planned.slot[slot]), len(left), used, slot), used.rows[slot]]
    if [each["row"] for each in left] != tried[:-1] or any(each["row"] not in tried for each in said):
        return "the bad samples are not those that the plan gives"
    if any(each["outcome"] == "empty" for each in left) and tried[-1] >= 0:
        return "a bad sample that left its place empty, where the plan has another one"
    epoch = int(planned.epoch[slot])
    for each in said:
        name = feed.catalog.item_name(each["row"], epoch)
        if each.get("member") is None and name != f"{each['group']}:{each['id']}":
            return f"the bad sample is {name}, not {each['group']}:{each['id']}"
    return None


def _tried(feed: Feed, planned_slot: int, attempts: int, used: _Used, slot: int) -> list[int]:
    """Return the rows that the plan tries in a slot before the one that is used, which is written into ``used``."""
    tried = [used.rows[slot]]
    for attempt in range(1, attempts + 1):
        instead = feed.plan.order.stand_in(planned_slot, attempt)
        tried.append(-1 if instead is None else feed.catalog.rows(instead)[0])
        if used.names:
            used.names[slot] = "" if instead is None else feed.catalog.item_names(instead)[0]
    used.rows[slot] = tried[-1]
    return tried[:-1]


def _misreported(feed: Feed, line: Line) -> list[str]:
    """Return descriptions of where a line differs from the plan: bad samples, counts and ids."""
    found: list[str] = []
    ids: list[str] = []
    nothing: list[str] = []
    sources: Counter[str] = Counter()
    groups: Counter[str] = Counter()
    reported = iter(line.get("ids", ()))
    for step, used in enumerate(_used(feed, line, found), line["steps"][0]):
        own_sources, own_groups = feed.catalog.count(used.rows)
        sources.update(own_sources)
        groups.update(own_groups)
        if "ids" in line:
            ids += _misnamed(step, used.names, next(reported, nothing))
    ids += [f"step {line['steps'][1] + at} planned nothing, used {names}" for at, names in enumerate(reported)]
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
    if len(theirs) < len(ours):  # with several recipes padding is in none of them
        ours = list(filter(None, ours))
        theirs = list(filter(None, theirs))
    pairs = zip_longest(ours, theirs, fillvalue="")
    return [f"step {step} planned {a or 'nothing'}, used {b or 'nothing'}" for a, b in pairs if a != b]
