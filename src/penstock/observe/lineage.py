"""Decides which lines of a ledger count: a resumed run reports steps again, and the last report counts.

Knows steps, ranks and worlds; knows nothing of the contents of batches.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

from penstock.observe.coverage import Rank, StepSpan, joined, missing
from penstock.observe.lines import LedgerLine

Cut = Callable[[LedgerLine, int], LedgerLine]
"""Returns a line as it would be if it ended at an earlier step."""

_MAX_BATCHES_AHEAD = 16  # per worker of a DataLoader: its prefetch_factor, which is 2 by default
_Reported = list[tuple[LedgerLine, int]]  # lines, and the step at which each now ends


class _WalkWorker(NamedTuple):
    """One of the workers that share a rank's steps. A rank without workers has one, with an empty walk."""

    walk: str
    worker: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """The lines of a ledger that count, so that each step of a rank counts once.

    Attributes:
        lines: Lines that count.
        repeated: Number of steps of a rank that were reported again later.
        doubled: Number of these that count twice, in partly overlapping lines that could not be cut.
        ahead: Number of steps of a rank that workers made ahead and the trainer never received. They do not count.
        gaps: Descriptions of the steps that are in no line.
        kept: The same lines as they were written, and the step at which each now ends.
        given_up: Last steps, reported before the run resumed from an earlier step and not again; None if there are
            none.
    """

    lines: list[LedgerLine]
    repeated: int
    doubled: int
    ahead: int
    gaps: list[str]
    kept: list[tuple[LedgerLine, int]]
    given_up: StepSpan | None

    def spans(self, wrong: Container[int] = ()) -> dict[Rank, list[StepSpan]]:
        """Return the steps of each rank, in as few spans as possible.

        Args:
            wrong: ``id`` of each line to leave out.
        """
        found: dict[Rank, list[tuple[LedgerLine, int]]] = {}
        for line, end in self.kept:
            if id(line) not in wrong:
                found.setdefault(Rank(line["world"], line["rank"]), []).append((line, end))
        return {rank: joined(span for each in own for span in _spans(*each)) for rank, own in found.items()}


def lineage(lines: Iterable[LedgerLine], cut: Cut | None = None) -> Lineage:
    """Find the lines that count.

    If a line begins before the end of earlier lines of its rank, or of another number of ranks, the run has resumed
    there: earlier reports of that step and later ones no longer count. The workers of one walk take turns, so their
    lines do not replace each other.

    Args:
        lines: Lines of a ledger, in the order in which they were written. A third number in ``steps`` is a stride: the
            line then stands for several lines of a worker, of one step each.
        cut: Function that ends a line at an earlier step; None keeps lines whole.
    """
    reported: dict[Rank, dict[_WalkWorker, _Reported]] = {}
    walks: dict[tuple[Rank, str], dict[int, list[range]]] = {}
    reached = 0
    repeated = 0
    doubled = 0
    for line in lines:
        rank = Rank(line["world"], line["rank"])
        worker = _WalkWorker(line["walk"], line["worker"])
        first, after = line["steps"][:2]
        if worker.walk:
            walks.setdefault((rank, worker.walk), {}).setdefault(worker.worker, []).append(_steps(line, after))
        else:
            reached = max(reached, after)
        replaced = [theirs for other, theirs in reported.setdefault(rank, {}).items() if _follows(worker, other)]
        replaced += [theirs for other in reported if other.world != rank.world for theirs in reported[other].values()]
        repeated += sum(_go_back(theirs, first) for theirs in replaced)
        reported[rank].setdefault(worker, []).append((line, after))
    ahead = _drop_made_ahead(reported)
    kept = [pair for workers in reported.values() for pairs in workers.values() for pair in pairs]
    counted: list[LedgerLine] = []
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
    """Return whether a line of a worker replaces later reports of another worker of its rank."""
    return worker.walk != other.walk or worker.worker == other.worker


def _drop_made_ahead(reported: dict[Rank, dict[_WalkWorker, _Reported]]) -> int:
    """Drop batches that the trainer never received: workers report a step when they make it.

    The trainer receives batches in order, and the same number on all ranks. So nothing counts after the first step that
    no worker of a walk made, nor after the last step of another rank. If that is more than workers make ahead, lines
    were lost, and all count.

    Returns:
        Number of steps of a rank that were dropped.
    """
    dropped = 0
    for workers in reported.values():
        for walk in _walks(workers):
            end = _end_of_walk([[_steps(*each) for each in own] for own in walk])
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
    """Return the reports of the workers of each walk."""
    walks: dict[str, list[_Reported]] = {}
    for worker, reported in workers.items():
        if worker.walk and reported:
            walks.setdefault(worker.walk, []).append(reported)
    return list(walks.values())


def _last(walk: list[_Reported]) -> int:
    """Return the step after the last one that a walk reported."""
    return max(end for reported in walk for _, end in reported)


def _end_at(walk: list[_Reported], step: int) -> int:
    """End a walk at a step, if its workers may have made the later steps ahead.

    Args:
        walk: Reports of each worker.
        step: First step that does not count.

    Returns:
        Number of steps that were dropped.
    """
    if _last(walk) - step > _MAX_BATCHES_AHEAD * len(walk):
        return 0
    return sum(_go_back(reported, step) for reported in walk)


def _surely_reached(steps: list[list[range]]) -> int:
    """Return the step before which the trainer received all batches, from the steps of each worker."""
    return max(some[-1] for own in steps for some in own) + 1 - _MAX_BATCHES_AHEAD * len(steps)


def _end_of_walk(steps: list[list[range]]) -> int:
    """Return the first step that no worker made, from the steps of each worker."""
    made = sorted({step for own in steps for some in own for step in some})
    after = made[-1] + 1
    pairs = (pair for own in steps for pair in pairwise(chain.from_iterable(own)))
    stride = min((then - now for now, then in pairs if then > now), default=after)
    # A lost line does not end a walk: its worker made later steps. Only the last step of a worker does, or the step
    # of a worker that made none.
    last = {step % stride: step for step in made}
    ends = [step + stride for step in last.values()]
    none_of_it = next((step for step in range(made[0], made[0] + len(last) + 1) if step % stride not in last), after)
    return min(*ends, none_of_it, after)


def _go_back(reported: _Reported, step: int) -> int:
    """Remove the reports of a step and later ones. Returns the number of steps removed."""
    repeated = 0
    while reported and reported[-1][1] > step:
        line, end = reported.pop()
        steps = _steps(line, end)
        kept = len(range(steps.start, min(step, end), steps.step))
        repeated += len(steps) - kept
        if kept:
            reported.append((line, steps[kept - 1] + 1 if steps.step > 1 else step))
    return repeated


def _steps(line: LedgerLine, end: int) -> range:
    """Return the steps of a line before an end."""
    return range(line["steps"][0], end, range(*line["steps"]).step)


def _spans(line: LedgerLine, end: int) -> Iterator[StepSpan]:
    """Return the spans of a line before an end."""
    steps = _steps(line, end)
    return iter([(steps.start, end)]) if steps.step == 1 else ((step, step + 1) for step in steps)
