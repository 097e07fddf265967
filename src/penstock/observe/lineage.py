"""Which lines of a ledger count: a run that resumes from a checkpoint reports steps again, and the last report counts.

Knows steps, ranks and worlds; knows nothing of what was in a batch.
"""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from penstock.observe.coverage import Rank, Span, missing

Line = dict[str, Any]
Cut = Callable[[Line, int], Line]

_MOST_AHEAD = 16  # batches that a worker of a DataLoader makes ahead: its prefetch_factor, which is 2 by default
_Reported = list[tuple[Line, int]]  # lines, and where each now ends


class _WalkWorker(NamedTuple):
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
        ahead: number of steps of a rank that workers made ahead and the trainer never received. They do not count.
        gaps: descriptions of the steps that are in no line.
        kept: the same lines as they were written, and where each now ends.
        given_up: steps at the end that an earlier life of the run reported and the last one did not; None if there are
            none.
    """

    lines: list[Line]
    repeated: int
    doubled: int
    ahead: int
    gaps: list[str]
    kept: list[tuple[Line, int]]
    given_up: Span | None

    def spans(self, wrong: Container[int] = ()) -> dict[Rank, list[Span]]:
        """Return the steps of each rank.

        Args:
            wrong: ``id`` of lines to leave out.
        """
        found: dict[Rank, list[Span]] = {}
        for line, end in self.kept:
            if id(line) not in wrong:
                found.setdefault(Rank(line["world"], line["rank"]), []).append((line["steps"][0], end))
        return found


def lineage(lines: Iterable[Line], cut: Cut | None = None) -> Lineage:
    """Find the lines that count.

    A line that begins before the end of earlier lines, of its rank or of another number of ranks, is of a run that
    resumed there: earlier reports of that step and of later ones no longer count. The workers of one walk take turns,
    so their lines do not replace each other.

    Args:
        lines: the lines of a ledger, in the order in which they were written.
        cut: makes a line end at an earlier step; None keeps lines whole.
    """
    reported: dict[Rank, dict[_WalkWorker, _Reported]] = {}
    walks: dict[tuple[Rank, str], dict[int, list[int]]] = {}
    reached = 0
    repeated = 0
    doubled = 0
    for line in lines:
        rank = Rank(line["world"], line["rank"])
        worker = _WalkWorker(line["walk"], line["worker"])
        first, after = line["steps"]
        if worker.walk:
            walks.setdefault((rank, worker.walk), {}).setdefault(worker.worker, []).append(first)
        else:
            reached = max(reached, after)
        replaced = [theirs for other, theirs in reported.setdefault(rank, {}).items() if _follows(worker, other)]
        replaced += [theirs for other in reported if other.world != rank.world for theirs in reported[other].values()]
        repeated += sum(_go_back(theirs, first) for theirs in replaced)
        reported[rank].setdefault(worker, []).append((line, after))
    ahead = _drop_made_ahead(reported)
    kept = [pair for workers in reported.values() for pairs in workers.values() for pair in pairs]
    counted: list[Line] = []
    for line, end in kept:
        over = line["steps"][1] - end
        counted.append(cut(line, end) if cut and over else line)
        doubled += 0 if cut else over
    reached = max([reached, *(_surely_reached(list(walk.values())) for walk in walks.values())])
    end = max((end for _, end in kept), default=0)
    found = Lineage(counted, repeated, doubled, ahead, [], kept, (end, reached) if end < reached else None)
    found.gaps.extend(missing(found.spans()))
    return found


def _follows(worker: _WalkWorker, other: _WalkWorker) -> bool:
    """Return whether a line of a worker replaces what another worker of its rank reported from that step on."""
    return worker.walk != other.walk or worker.worker == other.worker


def _drop_made_ahead(reported: dict[Rank, dict[_WalkWorker, _Reported]]) -> int:
    """Leave out batches that workers made and that the trainer never got: they report a step when it is made.

    The trainer gets batches in order, and all ranks get as many. So nothing counts after the first step that no worker
    of a walk made, nor after the last step of another rank. If that is more than workers make ahead, lines were lost.

    Returns:
        How many steps of a rank were left out.
    """
    dropped = 0
    for workers in reported.values():
        for walk in _walks(workers):
            end = _end_of_walk([[line["steps"][0] for line, _ in own] for own in walk])
            dropped += _end_at(walk, end)
    ends: dict[Rank, int] = {}
    for rank, workers in reported.items():
        if any(workers.values()):
            ends[rank] = max(end for own in workers.values() for _, end in own)
    common: dict[int, int] = {}
    for rank, end in ends.items():
        common[rank.world] = min(end, common.get(rank.world, end))
    for rank, end in ends.items():
        for walk in _walks(reported[rank]):
            if _last(walk) == end:
                dropped += _end_at(walk, common[rank.world])
    return dropped


def _walks(workers: dict[_WalkWorker, _Reported]) -> list[list[_Reported]]:
    """Return what the workers of each walk reported."""
    walks: dict[str, list[_Reported]] = {}
    for worker, reported in workers.items():
        if worker.walk and reported:
            walks.setdefault(worker.walk, []).append(reported)
    return list(walks.values())


def _last(walk: list[_Reported]) -> int:
    """Return the step after the last one that a walk reported."""
    return max(end for reported in walk for _, end in reported)


def _end_at(walk: list[_Reported], step: int) -> int:
    """Make a walk end at a step, if its workers can have made ahead what comes after. Returns how many steps that was.

    Args:
        walk: what each worker reported.
        step: the first one that does not count.
    """
    if _last(walk) - step > _MOST_AHEAD * len(walk):
        return 0
    return sum(_go_back(reported, step) for reported in walk)


def _surely_reached(steps: list[list[int]]) -> int:
    """Return the step before which the trainer got all batches of a walk; ``steps`` are the steps of each worker."""
    return max(step for own in steps for step in own) + 1 - _MOST_AHEAD * len(steps)


def _end_of_walk(steps: list[list[int]]) -> int:
    """Return the first step that no worker made or would have made next; ``steps`` are the steps of each worker."""
    made = sorted({step for own in steps for step in own})
    after = made[-1] + 1
    stride = min((then - now for own in steps for now, then in pairwise(own) if then > now), default=after)
    # A missing line that was lost does not count: its worker made later steps. So only the last step of a worker ends
    # the walk, or a step of a worker that made none.
    last = {step % stride: step for step in made}
    ends = [step + stride for step in last.values()]
    none_of_it = next((step for step in range(made[0], made[0] + len(last) + 1) if step % stride not in last), after)
    return min(*ends, none_of_it, after)


def _go_back(reported: _Reported, step: int) -> int:
    """Remove what was reported of a step and of later ones. Returns how many steps were removed."""
    repeated = 0
    while reported and reported[-1][1] > step:
        line, end = reported.pop()
        repeated += end - max(line["steps"][0], step)
        if line["steps"][0] < step:
            reported.append((line, step))
    return repeated
