"""Which samples a batch is to hold, and where they lie. Reads nothing of what is in them.

Plan, manifest and source are asked for several batches at once: each question takes about as long for one batch, and
between two of them the CPU's caches were filled with other things.
"""

import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.plan.draws import Ints, key, words
from penstock.plan.endless import Endless, Planned
from penstock.plan.plan import Plan
from penstock.plan.timeline import Timeline
from penstock.readers.tar.manifest import Manifest
from penstock.readers.tar.reader import Files, TarSource
from penstock.recipes.sample import Sample
from penstock.runtime.forking import reset_in_children

_AT_ONCE = 128  # samples
_KEPT = 4  # results for so many, and what was asked so many times ago
_FAR = 64  # steps apart: no walk


Whose = tuple[int, int, Timeline]  # rank, world, and where each step begins


class Looked(NamedTuple):
    """The slots of a batch, and the sample of each; None is padding."""

    slots: Ints
    samples: list[Sample | None]


class Lookup:
    """Answers for any batch, those near the latest ones soonest. Any number of threads may ask."""

    def __init__(self, plan: Plan, manifest: Manifest, source: TarSource, files: Files, seed: int) -> None:
        self._plan, self._manifest, self._source, self._files = plan, manifest, source, files
        self._keys = np.array([key(seed, "sample", name) for name in manifest.sources], dtype=np.uint64)
        self._asked: deque[tuple[int, Whose]] = deque(maxlen=_KEPT)
        self._latest: tuple[dict[tuple[int, Whose], Looked], ...] = ()  # replaced whole, so it is read without a lock
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._lock = threading.Lock()

    def batch(self, step: int, rank: int, world: int, timeline: Timeline) -> Looked:
        asked = (step, (rank, world, timeline))
        self._asked.append(asked)
        if not self._manifest.indexed:  # shards are scanned to find samples: side by side, and when they are needed
            return self._look_up(asked, range(step, step + 1))[asked]
        found = self._known(asked)
        if found is None:
            with self._lock:
                found = self._known(asked) or self._look_up(asked, self._next_steps(*asked))[asked]
        return found

    def _known(self, asked: tuple[int, Whose]) -> Looked | None:
        return next((known[asked] for known in self._latest if asked in known), None)

    def _look_up(self, asked: tuple[int, Whose], steps: Sequence[int]) -> dict[tuple[int, Whose], Looked]:
        _, whose = asked
        planned = self._plan.batches(steps, *whose)
        samples, rows = self._samples(planned), len(planned.slot) // len(steps)
        parts = [slice(rows * number, rows * (number + 1)) for number in range(len(steps))]
        looked = [Looked(planned.slot[part], samples[part]) for part in parts]
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
        [sample] = self._samples(order.stand_in(slot, attempt))
        assert sample is not None
        return sample

    def _samples(self, planned: Planned) -> list[Sample | None]:
        here = np.flatnonzero(planned.item >= 0)
        columns = (planned.source, planned.group, planned.item, planned.epoch, planned.repeat)
        source, group, item, epoch, repeat = (column[here] for column in columns)
        rows = self._manifest.rows(source, group, item)
        numbers, names = rows.tolist(), [self._manifest.sources[number] for number in source.tolist()]
        random = words(words(words(self._keys[source], rows), epoch), repeat)
        places = self._source.look_up(numbers, self._files)
        samples = map(Sample, numbers, self._manifest.ids(rows), names, random.tolist(), places)
        if len(here) == len(planned.item):
            return list(samples)
        found: list[Sample | None] = [None] * len(planned.item)
        for row, sample in zip(here.tolist(), samples, strict=True):
            found[row] = sample
        return found
