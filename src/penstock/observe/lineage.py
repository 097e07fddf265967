"""Which lines of a ledger count: a run that went back to a checkpoint tells steps again, and its last word holds.

Knows steps, ranks and worlds; not what was in a batch.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Line = dict[str, Any]
Span = tuple[int, int]  # first step, and the one after the last
Cut = Callable[[Line, int], Line]


@dataclass(frozen=True, slots=True)
class Lineage:
    """What is left of a ledger when each step of a rank counts once.

    Attributes:
        lines: those that count.
        repeated: steps of a rank that were told again later.
        doubled: those of them that still count twice, in lines that overlap in part and could not be cut.
        gaps: steps that no line is about, in words.
    """

    lines: list[Line]
    repeated: int
    doubled: int
    gaps: list[str]


def lineage(lines: Iterable[Line], cut: Cut | None = None) -> Lineage:
    """Follow a run through its lines, in the order in which they were written.

    A line that begins before the end of its rank's earlier ones, or of those of another number of ranks, is of a run
    that went back there: what was told from that step on no longer counts. ``cut`` makes a line end at a step.
    """
    told: dict[tuple[int, int], list[tuple[Line, int]]] = {}  # a (world, rank): lines and where each now ends
    repeated = doubled = 0
    for line in lines:
        world, rank, (first, after) = line["world"], line["rank"], line["steps"]
        for (their_world, their_rank), theirs in told.items():
            if their_world != world or their_rank == rank:
                repeated += _go_back(theirs, first)
        told.setdefault((world, rank), []).append((line, after))
    counted: list[Line] = []
    for line, end in (pair for pairs in told.values() for pair in pairs):
        over = line["steps"][1] - end
        counted.append(cut(line, end) if cut and over else line)
        doubled += 0 if cut else over
    spans = {who: [(line["steps"][0], end) for line, end in pairs] for who, pairs in told.items()}
    return Lineage(counted, repeated, doubled, _gaps(spans))


def _go_back(told: list[tuple[Line, int]], step: int) -> int:
    """Take back what was told of a step and those after it; returns how many steps that were."""
    repeated = 0
    while told and told[-1][1] > step:
        line, end = told.pop()
        repeated += end - max(line["steps"][0], step)
        if line["steps"][0] < step:
            told.append((line, step))
    return repeated


def _gaps(spans: dict[tuple[int, int], list[Span]]) -> list[str]:
    """Where a rank's lines do not follow each other, and no run with another number of ranks was at work either."""
    of_world: dict[int, list[Span]] = {}
    for (world, _), own in spans.items():
        of_world[world] = _joined([*of_world.get(world, []), *own])
    everywhere = _holes([span for each in of_world.values() for span in each])
    found = [f"no line is about steps {a}:{b}" for a, b in everywhere]
    for (world, rank), own in sorted(spans.items()):
        others = [span for other, each in of_world.items() if other != world for span in each]
        holes = [hole for hole in _holes([*own, *others]) if hole not in everywhere]
        found += [f"rank {rank} of {world}: no line is about steps {a}:{b}" for a, b in holes]
    return found


def _joined(spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for first, after in sorted(spans):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], after))
        else:
            joined.append((first, after))
    return joined


def _holes(spans: list[Span]) -> list[Span]:
    joined = _joined(spans)
    return [(before[1], then[0]) for before, then in pairwise(joined)]
