"""Whether a ledger agrees with the plan: what a line should contain follows from the plan alone."""

from itertools import zip_longest
from typing import Any, NamedTuple

from penstock.feed import Feed
from penstock.observe.lines import line_timeline


class _Used(NamedTuple):
    """What a step used, by the plan: rows, and ``group:id`` if the line has ids; -1 and empty for padding."""

    rows: list[int]
    names: list[str]


def differences(feed: Feed, line: dict[str, Any]) -> list[str]:
    """Compare a line with the plan.

    Which samples were bad is taken from the line. Their substitutes, and all else, follow from the plan.

    Returns:
        A description of each difference; empty if the line and the plan agree.
    """
    where = "rank {rank}, steps {steps[0]}:{steps[1]}".format_map(line)
    if not of_this_run(feed, line):
        return [f"{where}: written by another run (seed, data or mixture differ)"]
    used, found = _used(feed, line)
    return [f"{where}: {text}" for text in [*found, *_misreported(feed, line, used)]]


def cut(feed: Feed, line: dict[str, Any], end: int) -> dict[str, Any]:
    """Return the line as it would be if it ended at an earlier step. A line of another run is returned unchanged."""
    if not of_this_run(feed, line):
        return line
    first = line["steps"][0]
    part = {**line, "steps": [first, end], "bad": [bad for bad in line["bad"] if bad["step"] < end]}
    used, _ = _used(feed, part)
    sources, groups = feed.catalog.count(row for step in used for row in step.rows)
    part |= {"samples": sum(sources.values()), "sources": sources, "groups": groups}
    return part | ({"ids": line["ids"][: end - first]} if "ids" in line else {})


def of_this_run(feed: Feed, line: dict[str, Any]) -> bool:
    """Return whether a line was written by the run of this feed."""
    return bool(line["fingerprint"] == feed.identity.fingerprint(line_timeline(line).batch(line["steps"][1])[0]))


def _used(feed: Feed, line: dict[str, Any]) -> tuple[list[_Used], list[str]]:
    """Return what each step of a line used, by the plan, and descriptions of bad samples that contradict the plan."""
    bad: dict[tuple[int, int], list[int]] = {}
    for each in line["bad"]:
        if each["outcome"] == "replaced":
            bad.setdefault((each["step"], each["slot"]), []).append(each["row"])
    timeline = line_timeline(line)
    used: list[_Used] = []
    found: list[str] = []
    for step in range(*line["steps"]):
        planned = feed.plan.batch(step, line["rank"], line["world"], timeline)
        names = feed.catalog.item_names(planned) if "ids" in line else []
        here = _Used(feed.catalog.rows(planned), names)
        for slot in range(len(here.rows)):
            said = bad.pop((step, slot), [])
            if said and said != _replaced(feed, int(planned.slot[slot]), said, here, slot):
                found.append(f"step {step}, slot {slot}: the bad samples are not those that the plan gives")
        used.append(here)
    found += [f"step {step}, slot {slot}: a bad sample where the plan has no sample" for step, slot in bad]
    return used, found


def _replaced(feed: Feed, planned_slot: int, said: list[int], used: _Used, slot: int) -> list[int]:
    """Return the rows that the plan tries in a slot before the one that is used, which is written into ``used``."""
    tried = [used.rows[slot]]
    for attempt in range(1, len(said) + 1):
        instead = feed.plan.order.stand_in(planned_slot, attempt)
        tried.append(-1 if instead is None else feed.catalog.rows(instead)[0])
        if used.names:
            used.names[slot] = "" if instead is None else feed.catalog.item_names(instead)[0]
    used.rows[slot] = tried[-1]
    return tried[:-1]


def _misreported(feed: Feed, line: dict[str, Any], used: list[_Used]) -> list[str]:
    """Return descriptions of where the counts and ids of a line differ from those of the rows it should contain."""
    found: list[str] = []
    sources, groups = feed.catalog.count(row for step in used for row in step.rows)
    for what, said, planned in (("source", line["sources"], sources), ("group", line["groups"], groups)):
        if said != planned:
            names = sorted(name for name in said.keys() | planned.keys() if said.get(name, 0) != planned.get(name, 0))
            counts = ", ".join(f"{name} {said.get(name, 0)} (planned {planned.get(name, 0)})" for name in names[:3])
            found.append(f"samples per {what} differ: {counts}{' …' if names[3:] else ''}")
    samples = sum(sources.values())
    if line["samples"] != samples:
        found.append(f"{line['samples']} samples, planned {samples}")
    if "ids" in line:
        nothing: list[str] = []
        for at, (theirs, ours) in enumerate(zip_longest(line["ids"], (step.names for step in used), fillvalue=nothing)):
            pairs = zip_longest(ours, theirs, fillvalue="")  # with several recipes padding is in none of them
            found += [
                f"step {line['steps'][0] + at} planned {a or 'nothing'}, used {b or 'nothing'}"
                for a, b in pairs
                if a != b
            ]
    return found
