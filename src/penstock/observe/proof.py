"""Whether a ledger says what the plan says: what a line should hold follows from the plan alone."""

from itertools import zip_longest
from typing import Any

import numpy as np

from penstock.feed import Feed
from penstock.observe.ledger import count_rows, item_names
from penstock.plan.order import Planned
from penstock.plan.timeline import Timeline


def line_timeline(line: dict[str, Any]) -> Timeline:
    return Timeline(tuple((int(a), int(b), int(c)) for a, b, c in line["segments"]))


def differences(feed: Feed, line: dict[str, Any]) -> list[str]:
    """How a line departs from the plan: nothing, if the ledger and the plan agree.

    Which samples were bad is taken at its word; what was tried in their place follows from the plan, as all else does.
    """
    where = "rank {rank}, steps {steps[0]}:{steps[1]}".format_map(line)
    if not of_this_run(feed, line):
        return [f"{where}: written by another run (seed, filelist or mixture differ)"]
    used, found = _used(feed, line)
    return [f"{where}: {text}" for text in [*found, *_told_wrong(feed, line, used)]]


def cut(feed: Feed, line: dict[str, Any], end: int) -> dict[str, Any]:
    """The line as it would be if it ended at an earlier step; one of another run stays whole."""
    if not of_this_run(feed, line):
        return line
    first = line["steps"][0]
    part = {**line, "steps": [first, end], "bad": [bad for bad in line["bad"] if bad["step"] < end]}
    used, _ = _used(feed, part)
    rows = [row for step in used for row in step if row >= 0]
    part |= {"samples": len(rows)} | dict(zip(("sources", "shards"), count_rows(feed.manifest, rows), strict=True))
    return part | ({"ids": line["ids"][: end - first]} if "ids" in line else {})


def of_this_run(feed: Feed, line: dict[str, Any]) -> bool:
    return bool(line["fingerprint"] == feed.identity.fingerprint(line_timeline(line).batch(line["steps"][1])[0]))


def _used(feed: Feed, line: dict[str, Any]) -> tuple[list[list[int]], list[str]]:
    """The rows that each step of a line has used, by the plan; and bad samples that the plan can't explain."""
    bad: dict[tuple[int, int], list[int]] = {}
    for each in line["bad"]:
        bad.setdefault((each["step"], each["slot"]), []).append(each["row"])
    used, found, timeline = list[list[int]](), list[str](), line_timeline(line)
    for step in range(*line["steps"]):
        planned = feed.plan.batch(step, line["rank"], line["world"], timeline)
        rows = rows_of(feed, planned)
        for slot, row in enumerate(rows):
            said = bad.pop((step, slot), [])
            tried = [row, *_stand_ins(feed, int(planned.slot[slot]), len(said))]
            rows[slot] = tried[-1]
            if said != tried[:-1]:
                found.append(f"step {step} has other bad samples at {slot} than the plan would try there")
        used.append(rows)
    return used, [*found, *(f"a bad sample at {slot} of step {step}, where there is none" for step, slot in bad)]


def _told_wrong(feed: Feed, line: dict[str, Any], used: list[list[int]]) -> list[str]:
    """Where a line departs from the rows that it should be about."""
    manifest, found = feed.manifest, list[str]()
    rows = [row for step in used for row in step if row >= 0]
    sources, shards = count_rows(manifest, rows)
    for what, said, planned in (("source", line["sources"], sources), ("shard", line["shards"], shards)):
        if said != planned:
            names = sorted(name for name in said.keys() | planned.keys() if said.get(name, 0) != planned[name])
            counts = ", ".join(f"{name} {said.get(name, 0)} (planned {planned[name]})" for name in names[:3])
            found.append(f"samples a {what} differ: {counts}{' …' if names[3:] else ''}")
    if line["samples"] != len(rows):
        found.append(f"{line['samples']} samples, planned {len(rows)}")
    if "ids" in line:
        planned_ids, nothing = [item_names(manifest, step) for step in used], list[str]()
        for at, (theirs, ours) in enumerate(zip_longest(line["ids"], planned_ids, fillvalue=nothing)):
            pairs = zip_longest(ours, theirs, fillvalue="nothing")
            found += [f"step {line['steps'][0] + at} planned {a}, used {b}" for a, b in pairs if a != b]
    return found


def rows_of(feed: Feed, planned: Planned) -> list[int]:
    """The manifest's rows of what is planned, -1 for padding."""
    rows = feed.manifest.rows(planned.source, planned.group, np.maximum(planned.item, 0))
    return [row if real else -1 for row, real in zip(rows.tolist(), planned.item >= 0, strict=True)]


def _stand_ins(feed: Feed, slot: int, count: int) -> list[int]:
    """What is tried in place of a slot's bad sample, -1 where the slot stays empty."""
    tried = [feed.plan.order.stand_in(slot, attempt) for attempt in range(1, count + 1)]
    return [-1 if planned is None else rows_of(feed, planned)[0] for planned in tried]
