"""The schedule of a mixture: the source of each slot of a period. Knows no lanes but for their stride.

Tijdeman's chairman assignment: after every slot, each of L sources is within 1 - 1/(2L-2) of its quota, the best
possible bound. As a scheduling problem: with M = 2L-2, turn x of a source may not come before its quota reaches
x + 1/M, nor after it reaches x + 1 - 1/M; the earliest deadline goes first.

    quota of a source    0 ──────── 1 ──────── 2 ──────── 3
    its turns              [─ 0th ─]  [─ 1st ─]  [─ 2nd ─]
"""

from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush

import numpy as np

from penstock.plan.draws import Ints


@dataclass(frozen=True, slots=True)
class Schedule:
    """One period of slots, which the run repeats.

    Attributes:
        counts: Slots per source.
        source: Source of each slot.
        rank: Number of earlier slots of the period with the same source.
        turns: Slots sorted by (source, rank): the inverse of the two above.
        first: Index in ``turns`` at which each source begins.
    """

    counts: Ints
    source: Ints
    rank: Ints
    turns: Ints
    first: Ints

    @property
    def period(self) -> int:
        return len(self.source)

    def strided(self, lanes: int) -> "Schedule":
        """Return the schedule that a lane reads: every ``lanes``-th slot, wrapping around until all slots were read."""
        return _indexed(self.source[np.arange(self.period) * lanes % self.period], self.counts)


@lru_cache(maxsize=64)
def make_schedule(counts: tuple[int, ...]) -> Schedule:
    """Return the schedule in which source i has counts[i] of sum(counts) slots."""
    return _indexed(_chairman(counts), np.array(counts, dtype=np.int64))


def _indexed(source: Ints, counts: Ints) -> Schedule:
    first = np.cumsum(counts) - counts
    turns = np.argsort(source, kind="stable")
    rank = np.empty_like(source)
    rank[turns] = np.arange(len(source)) - np.repeat(first, counts)
    return Schedule(counts, source, rank, turns, first)


def _chairman(counts: tuple[int, ...]) -> Ints:
    period = sum(counts)
    sources = [i for i, count in enumerate(counts) if count]
    if len(sources) == 1:
        return np.full(period, sources[0], dtype=np.int64)
    m = 2 * len(sources) - 2
    waiting = [(-(-period // (counts[i] * m)), i, 0) for i in sources]  # (first slot allowed, source, turn)
    waiting.sort()
    ready: list[tuple[int, int, int]] = []  # (last slot allowed, source, turn)
    chosen = np.empty(period, dtype=np.int64)
    for slot in range(1, period + 1):
        while waiting and waiting[0][0] <= slot:
            _, i, turn = heappop(waiting)
            heappush(ready, (period * (m * turn + m - 1) // (counts[i] * m), i, turn))
        _, i, turn = heappop(ready)
        chosen[slot - 1] = i
        heappush(waiting, (-(-period * (m * (turn + 1) + 1) // (counts[i] * m)), i, turn + 1))
    return chosen
