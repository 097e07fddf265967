"""Reading a usage ledger: what was used in all."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from penstock.feed import Feed
from penstock.observe.ledger import KEYS
from penstock.observe.lineage import Lineage, lineage
from penstock.observe.proof import cut


@dataclass
class Usage:
    """Sums over the lines of a ledger."""

    lineage: Lineage
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
    stalls: list[tuple[float, int]] = field(default_factory=list)  # seconds that each step of a rank was waited for
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


def summarise(lines: Iterable[dict[str, Any] | None], feed: Feed | None = None) -> Usage:
    """Sum up a ledger, every step of a rank once; to cut lines that overlap in part takes the feed of the run.

    What was spent on steps that were repeated later was spent: seconds waited and cache counts are those of all lines.
    """
    read = list(lines)
    told = [line for line in read if line is not None]
    usage = Usage(lineage(told, None if feed is None else partial(cut, feed)), len(told), len(read) - len(told))
    caches: dict[tuple[str, int], Counter[str]] = {}
    for line in told:
        usage.processes.add((line["host"], line["pid"]))
        usage.ranks.add(line["rank"])
        usage.stalls += zip(line["stalls"], range(*line["steps"]), strict=False)
        caches.setdefault((line["host"], line["rank"]), Counter()).update(line["cache"])
    for (host, _), counts in caches.items():  # every rank tells of the whole node: who saw the most saw all
        usage.cache[host] = usage.cache.get(host, Counter()) | counts
    for line in usage.lineage.lines:
        usage.samples += line["samples"]
        first, after = line["steps"]
        usage.first_step = first if usage.first_step is None else min(usage.first_step, first)
        usage.next_step = max(usage.next_step, after)
        usage.sources.update(line["sources"])
        usage.shards.update(line["shards"])
        usage.bad += line["bad"]
    return usage
