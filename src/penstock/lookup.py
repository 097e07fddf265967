"""Which samples a batch is to hold, and where they lie. Reads nothing of what is in them.

Plan, manifest and source are asked for several batches at once: each question takes about as long for one batch, and
between two of them the CPU's caches were filled with other things.
"""

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from penstock.manifest.reader import Manifest
from penstock.plan.draws import key, words
from penstock.plan.endless import Endless, Planned
from penstock.plan.plan import Plan
from penstock.plan.timeline import Timeline
from penstock.recipes.sample import Sample
from penstock.sources.tarsource import TarSource

_AT_ONCE = 128  # samples
_KEPT = 4  # results for so many
_JUST_NOW = 4  # steps
_KEPT_PLANS = 64  # what is fetched ahead is made soon after


class Looked(NamedTuple):
    """A batch as planned, and its samples by row; padding has none."""

    planned: Planned
    samples: dict[int, Sample]


class Lookup:
    """Answers for any batch, those near the latest ones soonest. Any number of threads may ask."""

    def __init__(self, plan: Plan, manifest: Manifest, source: TarSource, seed: int) -> None:
        self._plan, self._manifest, self._source = plan, manifest, source
        self._keys = np.array([key(seed, "sample", name) for name in manifest.sources], dtype=np.uint64)
        self.planned = lru_cache(_KEPT_PLANS)(plan.batch)
        self._asked: deque[int] = deque(maxlen=_JUST_NOW)
        self._latest: tuple[dict[Any, Looked], ...] = ()  # replaced whole, so threads need no lock

    def batch(self, step: int, rank: int, world: int, timeline: Timeline) -> Looked:
        whose = (rank, world, timeline)
        self._asked.append(step)
        for known in self._latest:
            if (step, whose) in known:
                return known[step, whose]
        steps = self._next_steps(step, *whose)
        planned = [self.planned(each, *whose) for each in steps]
        looked = map(Looked, planned, self._samples(planned))
        found = {(each, whose): result for each, result in zip(steps, looked, strict=True)}
        self._latest = (found, *self._latest[: _KEPT - 1])
        return found[step, whose]

    def _next_steps(self, step: int, rank: int, world: int, timeline: Timeline) -> range:
        """A step and others that will be asked for next."""
        if not self._manifest.indexed:
            return range(step, step + 1)  # shards are scanned to find samples: not before these are needed
        # Of several worker processes each is asked for every so many steps.
        stride = min((later - sooner for sooner, later in pairwise(sorted(self._asked)) if later > sooner), default=1)
        stop = step + stride * max(1, _AT_ONCE // max(1, self._plan.rows(step, rank, world, timeline)))
        end = self._plan.steps(timeline)
        return range(step, stop if end is None else max(step + 1, min(stop, end)), stride)

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
