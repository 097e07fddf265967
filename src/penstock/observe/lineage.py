"""Which lines of a ledger count: a run that resumes from a checkpoint reports steps again, and the last report counts.

Knows steps, ranks and worlds; knows nothing of what was in a batch.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

Line = dict[str, Any]
Span = tuple[int, int]  # first step, and the one after the last
Cut = Callable[[Line, int], Line]


_Reported = list[tuple[Line, int]]  # lines, and where each now ends


class _Rank(NamedTuple):
    world: int
    rank: int


class _Worker(NamedTuple):
    """One of the workers that take turns at a rank's steps. A rank without workers has one, with an empty walk."""

    walk: str
    worker: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """The lines of a ledger that count, so that each step of a rank counts once.

    Attributes:
        lines: the lines that count.
        repeated: how many steps of a rank were reported again later.
        doubled: how many of these still count twice, in lines that overlap in part and could not be cut.
        gaps: descriptions of the steps that are in no line.
    """

    lines: list[Line]
    repeated: int
    doubled: int
    gaps: list[str]


def lineage(lines: Iterable[Line], cut: Cut | None = None) -> Lineage:
    """Find the lines that count.

    A line that begins before the end of earlier lines, of its rank or of another number of ranks, is of a run that
    resumed there: earlier reports of that step and of later ones no longer count. The workers of one walk take turns,
    so their lines do not replace each other.

    Args:
        lines: the lines of a ledger, in the order in which they were written.
        cut: makes a line end at an earlier step; None keeps lines whole.
    """
    reported: dict[_Rank, dict[_Worker, _Reported]] = {}
    repeated = 0
    doubled = 0
    for line in lines:
        rank = _Rank(line["world"], line["rank"])
        worker = _Worker(line["walk"], line["worker"])
        first, after = line["steps"]
        replaced = [theirs for other, theirs in reported.setdefault(rank, {}).items() if _follows(worker, other)]
        replaced += [theirs for other in reported if other.world != rank.world for theirs in reported[other].values()]
        repeated += sum(_go_back(theirs, first) for theirs in replaced)
        reported[rank].setdefault(worker, []).append((line, after))
    for workers in reported.values():
        _drop_made_ahead(workers)
    counted: list[Line] = []
    spans: dict[_Rank, list[Span]] = {}
    for rank, workers in reported.items():
        left = [pair for pairs in workers.values() for pair in pairs]
        spans[rank] = [(line["steps"][0], end) for line, end in left]
        for line, end in left:
            over = line["steps"][1] - end
            counted.append(cut(line, end) if cut and over else line)
            doubled += 0 if cut else over
    return Lineage(counted, repeated, doubled, _gaps(spans))


def _follows(worker: _Worker, other: _Worker) -> bool:
    """Return whether a line of a worker replaces what another worker of its rank reported from that step on."""
    return worker.walk != other.walk or worker.worker == other.worker


def _drop_made_ahead(workers: dict[_Worker, _Reported]) -> None:
    """Leave out batches that a rank's workers made and that the trainer never got: they report a step when it is made.

    The trainer gets batches in order. At the end of a walk nothing counts after the first step that no worker made.
    """
    walks: dict[str, list[_Reported]] = {}
    for worker, reported in workers.items():
        if worker.walk and reported:
            walks.setdefault(worker.walk, []).append(reported)
    for walk in walks.values():
        end = _end_of_walk([[line["steps"][0] for line, _ in reported] for reported in walk])
        for reported in walk:
            _go_back(reported, end)


def _end_of_walk(steps: list[list[int]]) -> int:
    """Return the first step that no worker made or would have made next; ``steps`` are the steps of each worker."""
    made = {step for own in steps for step in own}
    after = max(made) + 1
    stride = min((then - now for own in steps for now, then in pairwise(own)), default=after)
    missing = (step for step in range(min(made), after) if step not in made)
    # A missing line that was lost does not count: its worker made later steps.
    return next((step for step in missing if made.isdisjoint(range(step, after, stride))), after)


def _go_back(reported: _Reported, step: int) -> int:
    """Remove what was reported of a step and of later ones. Returns how many steps were removed."""
    repeated = 0
    while reported and reported[-1][1] > step:
        line, end = reported.pop()
        repeated += end - max(line["steps"][0], step)
        if line["steps"][0] < step:
            reported.append((line, step))
    return repeated


def _gaps(spans: dict[_Rank, list[Span]]) -> list[str]:
    """Return the steps that are in no line of a rank, and in no line of another number of ranks either."""
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
