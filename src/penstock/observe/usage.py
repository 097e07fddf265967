"""Reading a usage ledger: what was used in all, and whether it is what the plan says."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from penstock.feed import Feed
from penstock.observe.ledger import KEYS, item_names
from penstock.plan.endless import Endless, Planned
from penstock.plan.timeline import Timeline


@dataclass
class Usage:
    """Sums over the lines of a ledger."""

    lines: int = 0
    torn: int = 0
    samples: int = 0
    first_step: int | None = None
    next_step: int = 0
    processes: set[tuple[str, int]] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)
    sources: Counter[str] = field(default_factory=Counter)
    shards: Counter[str] = field(default_factory=Counter)
    bad: list[dict[str, Any]] = field(default_factory=list)
    waited_seconds: float = 0.0
    cache: dict[str, Counter[str]] = field(default_factory=dict)  # of each host


def read_lines(path: Path) -> Iterator[dict[str, Any] | None]:
    """The lines of a ledger; None for one that is torn, as after a full disk, or no line of a ledger at all."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:
                line = None
            yield line if isinstance(line, dict) and line.keys() >= KEYS else None


def summarise(path: Path) -> Usage:
    usage, caches = Usage(), dict[tuple[str, int], Counter[str]]()
    for line in read_lines(path):
        if line is None:
            usage.torn += 1
            continue
        usage.lines += 1
        usage.samples += line["samples"]
        first, after = line["steps"]
        usage.first_step = first if usage.first_step is None else min(usage.first_step, first)
        usage.next_step = max(usage.next_step, after)
        usage.processes.add((line["host"], line["pid"]))
        usage.ranks.add(line["rank"])
        usage.sources.update(line["sources"])
        usage.shards.update(line["shards"])
        usage.bad += line["bad"]
        usage.waited_seconds += line["waited_seconds"]
        caches.setdefault((line["host"], line["rank"]), Counter()).update(line["cache"])
    for (host, _), counts in caches.items():  # every rank tells of the whole node: who saw the most saw all
        usage.cache[host] = usage.cache.get(host, Counter()) | counts
    return usage


def line_timeline(line: dict[str, Any]) -> Timeline:
    return Timeline(tuple((int(a), int(b), int(c)) for a, b, c in line["segments"]))


def differences(feed: Feed, line: dict[str, Any]) -> list[str]:
    """How a line departs from the plan: nothing, if the ledger and the plan agree.

    Which samples were bad is taken at its word; what was tried in their place follows from the plan, as all else does.
    """
    first, after = line["steps"]
    where = f"rank {line['rank']}, steps {first}:{after}"
    timeline = line_timeline(line)
    if line["fingerprint"] != feed.identity.fingerprint(timeline.batch(after)[0]):
        return [f"{where}: written by another run (seed, filelist or mixture differ)"]
    bad: dict[tuple[int, int], list[int]] = {}
    for each in line["bad"]:
        bad.setdefault((each["step"], each["slot"]), []).append(each["row"])
    used, found = list[list[int]](), list[str]()
    for step in range(first, after):
        planned = feed.plan.batch(step, line["rank"], line["world"], timeline)
        rows = _rows(feed, planned)
        for slot, row in enumerate(rows):
            said = bad.pop((step, slot), [])
            tried = [row, *_stand_ins(feed, int(planned.slot[slot]), len(said))]
            rows[slot] = tried[-1]
            if said != tried[:-1]:
                found.append(f"{where}: step {step} has other bad samples at {slot} than the plan would try there")
        used.append(rows)
    found += [f"{where}: a bad sample at {slot} of step {step}, where there is none" for step, slot in bad]
    return found + _told_wrong(feed, line, where, used)


def _told_wrong(feed: Feed, line: dict[str, Any], where: str, used: list[list[int]]) -> list[str]:
    """Where a line departs from the rows that it should be about."""
    manifest, found = feed.manifest, list[str]()
    rows = [row for step in used for row in step if row >= 0]
    sources = Counter(manifest.sources[i] for i in manifest.locate(rows)[0])
    shards = Counter(manifest.shard(number).path for number in manifest.shard_of(rows))
    for what, said, planned in (("source", line["sources"], sources), ("shard", line["shards"], shards)):
        if said != planned:
            names = sorted(name for name in said.keys() | planned.keys() if said.get(name, 0) != planned[name])
            counts = ", ".join(f"{name} {said.get(name, 0)} (planned {planned[name]})" for name in names[:3])
            found.append(f"{where}: samples a {what} differ: {counts}{' …' if names[3:] else ''}")
    if line["samples"] != len(rows):
        found.append(f"{where}: {line['samples']} samples, planned {len(rows)}")
    if "ids" in line:
        planned_ids, nothing = [item_names(manifest, step) for step in used], list[str]()
        for at, (theirs, ours) in enumerate(zip_longest(line["ids"], planned_ids, fillvalue=nothing)):
            pairs = zip_longest(ours, theirs, fillvalue="nothing")
            found += [f"{where}: step {line['steps'][0] + at} planned {a}, used {b}" for a, b in pairs if a != b]
    return found


def _rows(feed: Feed, planned: Planned) -> list[int]:
    """The manifest's rows of what is planned, -1 for padding."""
    rows = feed.manifest.rows(planned.source, planned.group, np.maximum(planned.item, 0))
    return [row if real else -1 for row, real in zip(rows.tolist(), planned.item >= 0, strict=True)]


def _stand_ins(feed: Feed, slot: int, count: int) -> list[int]:
    """What is tried in place of a slot's bad sample; a finite pass leaves it empty."""
    order = feed.plan.order
    if not isinstance(order, Endless):
        return [-1] * count
    return [_rows(feed, order.stand_in(slot, attempt))[0] for attempt in range(1, count + 1)]
