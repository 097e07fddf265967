"""Sums up the lines of a usage ledger. Reads no data."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import or_

from penstock.feed import Feed
from penstock.observe.lineage import Lineage, lineage
from penstock.observe.lines import BadEntry, LedgerLine
from penstock.observe.proof import cut


@dataclass
class Usage:
    """Sums over the lines of a ledger.

    Attributes:
        lineage: Lines that count.
        lines: Number of valid lines, without copies.
        torn: Number of lines that could not be read.
        copies: Descriptions of lines that repeat an earlier line and do not count.
        samples: Number of samples used.
        first_step: First step of all lines; None if there are none.
        next_step: Step after the last one.
        processes: (host, pid) of every process that wrote a line.
        ranks: Ranks that wrote a line.
        sources: Samples used per source.
        groups: Samples used per group.
        bad: Bad samples.
        stalls: (seconds that the trainer waited, step) of every step of every rank.
        cache: Counters of the node cache, per host.
    """

    lineage: Lineage
    lines: int = 0
    torn: int = 0
    copies: list[str] = field(default_factory=list)
    samples: int = 0
    first_step: int | None = None
    next_step: int = 0
    processes: set[tuple[str, int]] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)
    sources: Counter[str] = field(default_factory=Counter)
    groups: Counter[str] = field(default_factory=Counter)
    bad: list[BadEntry] = field(default_factory=list)
    stalls: list[tuple[float, int]] = field(default_factory=list)
    cache: dict[str, Counter[str]] = field(default_factory=dict)


def summarise(lines: Iterable[LedgerLine | None], feed: Feed | None = None) -> Usage:
    """Sum up a ledger, counting every step of a rank once.

    Stalls and cache counters are summed over all lines, including steps that were repeated later.

    Args:
        lines: Lines that ``read_lines`` yields.
        feed: Feed of the run, to cut partly overlapping lines. Without it, their common steps count twice.
    """
    seen: dict[str, int] = {}
    reported = []
    copies = []
    torn = 0
    for number, line in enumerate(lines, 1):
        if line is None:
            torn += 1
        elif (same := seen.setdefault(json.dumps(line, sort_keys=True), number)) != number:
            copies.append(f"line {number} is a copy of line {same}")
        else:
            reported.append(line)
    cut_line = None if feed is None else partial(cut, feed)
    usage = Usage(lineage(reported, cut_line), len(reported), torn, copies)
    usage.cache = _cache_counts(reported)
    for line in reported:
        usage.processes.add((line["host"], line["pid"]))
        usage.ranks.add(line["rank"])
        usage.stalls += zip(line["stalls"], range(*line["steps"]), strict=False)
    for line in usage.lineage.lines:
        usage.samples += line["samples"]
        first, after = line["steps"]
        usage.first_step = first if usage.first_step is None else min(usage.first_step, first)
        usage.next_step = max(usage.next_step, after)
        usage.sources.update(line["sources"])
        usage.groups.update(line["groups"])
        usage.bad += line["bad"]
    return usage


def _cache_counts(reported: Iterable[LedgerLine]) -> dict[str, Counter[str]]:
    """Return the cache counters of each host.

    Every line counts the whole node since the last line of its process. So of concurrent workers or ranks the largest
    counters are used, and those of successive walks are added.
    """
    workers: dict[tuple[str, int, str], dict[int, Counter[str]]] = {}
    for line in reported:
        walk = workers.setdefault((line["host"], line["rank"], line["walk"]), {})
        walk.setdefault(line["worker"], Counter()).update(line["cache"])
    ranks: dict[tuple[str, int], Counter[str]] = {}
    for (host, rank, _), counts in workers.items():
        ranks.setdefault((host, rank), Counter()).update(reduce(or_, counts.values()))
    hosts: dict[str, Counter[str]] = {}
    for (host, _), seen in ranks.items():
        hosts[host] = hosts.get(host, Counter()) | seen
    return hosts
