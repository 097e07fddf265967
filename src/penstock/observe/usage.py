"""Reading a usage ledger: what was used in all, and whether it is what the plan says."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from penstock.feed import Feed
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
    cache: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)  # the latest of each process


def read_lines(path: Path) -> Iterator[dict[str, Any] | None]:
    """The lines of a ledger; None for one that is torn, as after a full disk."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                line = json.loads(text)
            except ValueError:
                line = None
            yield line if isinstance(line, dict) else None


def summarise(path: Path) -> Usage:
    usage = Usage()
    for line in read_lines(path):
        if line is None:
            usage.torn += 1
            continue
        usage.lines += 1
        usage.samples += line["samples"]
        first, after = line["steps"]
        usage.first_step = first if usage.first_step is None else min(usage.first_step, first)
        usage.next_step = max(usage.next_step, after)
        process = (line["host"], line["pid"])
        usage.processes.add(process)
        usage.ranks.add(line["rank"])
        usage.sources.update(line["sources"])
        usage.shards.update(line["shards"])
        usage.bad += line["bad"]
        usage.waited_seconds += line["waited_seconds"]
        usage.cache[process] = line["cache"]
    return usage


def line_timeline(line: dict[str, Any]) -> Timeline:
    return Timeline(tuple((int(a), int(b), int(c)) for a, b, c in line["segments"]))


def differences(feed: Feed, line: dict[str, Any]) -> list[str]:
    """How a line departs from the plan: nothing, if the ledger and the plan agree.

    A bad item does not count and its substitute does: that much of the ledger is taken at its word, and the rest must
    be the plan's, sample for sample.
    """
    where = f"rank {line['rank']}, steps {line['steps'][0]}:{line['steps'][1]}"
    timeline = line_timeline(line)
    samples = timeline.batch(line["steps"][1])[0]
    if line["fingerprint"] != feed.identity.fingerprint(samples):
        return [f"{where}: written by another run (seed, filelist or mixture differ)"]
    replaced = {(bad["step"], bad["slot"]) for bad in line["bad"]}
    planned_sources, planned_shards, found = Counter[str](), Counter[str](), list[str]()
    for at, step in enumerate(range(*line["steps"])):
        planned = feed.plan.batch(step, line["rank"], line["world"], timeline)
        real = np.flatnonzero(planned.item >= 0)
        rows = feed.manifest.rows(planned.source[real], planned.group[real], planned.item[real])
        kept = np.array([(step, slot) not in replaced for slot in real.tolist()], dtype=bool)
        planned_sources.update(feed.manifest.sources[i] for i in planned.source[real])
        paths = [feed.manifest.shard(number).path for number in feed.manifest.shard_of(rows)]
        planned_shards.update(path for path, keep in zip(paths, kept, strict=True) if keep)
        if "ids" in line:
            names = [f"{path}:{name}" for path, name in zip(paths, feed.manifest.ids(rows), strict=True)]
            pairs = zip(names, line["ids"][at], kept, strict=False)
            found += [f"{where}: step {step} planned {a}, used {b}" for a, b, keep in pairs if keep and a != b]
    if planned_sources != Counter(line["sources"]):
        found.append(f"{where}: samples a source are {line['sources']}, the plan says {dict(planned_sources)}")
    missing = planned_shards - Counter(line["shards"])
    if missing:
        found.append(f"{where}: fewer samples than planned of {', '.join(sorted(missing))}")
    if sum(line["shards"].values()) != sum(planned_sources.values()):
        found.append(f"{where}: {sum(line['shards'].values())} samples, the plan says {sum(planned_sources.values())}")
    return found
