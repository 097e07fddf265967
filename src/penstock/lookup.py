"""Which samples a batch is to hold, and where they lie. Reads nothing of what is in them.

Plan, manifest and source are asked for several batches at once: each question takes about as long for one batch, and
between two of them the CPU's caches were filled with other things.
"""

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from penstock.manifest.reader import Manifest
from penstock.plan.draws import key, words
from penstock.plan.endless import Endless, Planned
from penstock.plan.plan import Plan
from penstock.plan.timeline import Timeline
from penstock.recipes.sample import Sample
from penstock.sources.tarsource import TarSource
from penstock.turns import Turns

_AT_ONCE = 128  # samples
_KEPT = 4  # results for so many, and what was asked so many times ago
_FAR = 64  # steps apart: no walk
_KEPT_PLANS = 64  # what is fetched ahead is made soon after


Whose = tuple[int, int, Timeline]  # rank, world, and where each step begins


class Looked(NamedTuple):
    """A batch as planned, and its samples by row; padding has none."""

    planned: Planned
    samples: dict[int, Sample]


class Lookup:
    """Answers for any batch, those near the latest ones soonest. Any number of threads may ask."""

    def __init__(self, plan: Plan, manifest: Manifest, source: TarSource, seed: int, turns: Turns) -> None:
        self._plan, self._manifest, self._source, self._turns = plan, manifest, source, turns
        self._keys = np.array([key(seed, "sample", name) for name in manifest.sources], dtype=np.uint64)
        self.planned = lru_cache(_KEPT_PLANS)(plan.batch)
        self._asked: deque[tuple[int, Whose]] = deque(maxlen=_KEPT)
        self._latest: tuple[dict[tuple[int, Whose], Looked], ...] = ()  # replaced whole, so it is read without a lock

    def batch(self, step: int, rank: int, world: int, timeline: Timeline) -> Looked:
        asked = (step, (rank, world, timeline))
        self._asked.append(asked)
        if not self._manifest.indexed:  # shards are scanned to find samples: side by side, and when they are needed
            return self._look_up(asked, range(step, step + 1))[asked]
        found = self._known(asked)
        if found is None:
            with self._turns.lock:
                found = self._known(asked) or self._look_up(asked, self._next_steps(*asked))[asked]
        return found

    def _known(self, asked: tuple[int, Whose]) -> Looked | None:
        return next((known[asked] for known in self._latest if asked in known), None)

    def _look_up(self, asked: tuple[int, Whose], steps: Sequence[int]) -> dict[tuple[int, Whose], Looked]:
        _, whose = asked
        planned = self._plan.batches(steps, *whose)
        looked = map(Looked, planned, self._samples(planned))
        found = {(step, whose): result for step, result in zip(steps, looked, strict=True)}
        self._latest = (found, *self._latest[: _KEPT - 1])
        return found

    def _next_steps(self, step: int, whose: Whose) -> list[int]:
        """A step and, where steps are walked, those that will be asked for next; up to a change of the batch size."""
        before = [earlier for earlier, theirs in tuple(self._asked) if theirs == whose and 0 < step - earlier <= _FAR]
        if not before:
            return [step]
        stride, (rank, world, timeline) = step - max(before), whose  # of several worker processes each has its own
        rows, size = self._plan.rows(step, rank, world, timeline), timeline.batch(step)[1]
        stop, end = step + stride * max(1, _AT_ONCE // max(1, rows)), self._plan.steps(timeline)
        ahead = range(step, stop if end is None else max(step + 1, min(stop, end)), stride)
        return [each for each in ahead if timeline.batch(each)[1] == size]

    def stand_in(self, order: Endless, slot: int, attempt: int) -> Sample:
        """What a slot holds when its first items are bad."""
        [[sample]] = (samples.values() for samples in self._samples([order.stand_in(slot, attempt)]))
        return sample

    def _samples(self, batches: Sequence[Planned]) -> list[dict[int, Sample]]:
        real = [np.flatnonzero(planned.item >= 0) for planned in batches]
        columns = ((each.source, each.group, each.item, each.epoch, each.repeat) for each in batches)
        parts = [[column[here] for column in of_batch] for of_batch, here in zip(columns, real, strict=True)]
        source, group, item, epoch, repeat = (np.concatenate(column) for column in zip(*parts, strict=True))
        rows = self._manifest.rows(source, group, item)
        numbers, names = rows.tolist(), [self._manifest.sources[number] for number in source.tolist()]
        random = words(words(words(self._keys[source], rows), epoch), repeat)
        places = self._source.look_up(numbers)
        samples = map(Sample, numbers, self._manifest.ids(rows), names, random.tolist(), places)
        return [dict(zip(here.tolist(), samples)) for here in real]  # noqa: B905  as many as are here, no more
