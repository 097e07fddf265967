"""A finite run, as for evaluation: every item of all sources exactly once per pass. Weights do not apply."""

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.plan.draws import Ints, inverse, key
from penstock.plan.excluding import Excluded
from penstock.plan.fileorder import FileOrder
from penstock.plan.lanes import whole
from penstock.plan.order import Planned, Source
from penstock.plan.stream import Stream


class Finite:
    """The order of a finite run. Slots from ``length`` on are padding.

    The n samples of a short last batch of B are spread over its columns, so that every rank has one if n >= ranks::

        B = 8, n = 3:   0 . 1 . . 2 . .

    Args:
        sources: Sources, joined into one pool, or one after the other if all are in file order. A limit keeps the first
            items of a source.
        passes: Number of times that every item comes.
        residents: Number of resident groups.
        seed: Seed of the run.
        excluded: Excluded items by number of the source; ``since`` counts slots of the run. Their slots are padding.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        passes: int,
        residents: int,
        seed: int,
        excluded: Mapping[int, Excluded] | None = None,
    ) -> None:
        several = [_limited(source) for source in sources]
        groups = [len(sizes) for sizes in several]
        self._source = np.repeat(np.arange(len(sources)), groups)  # source of each group of the pool
        self._first = np.cumsum(groups) - groups  # the first group of each source in the pool
        sizes = np.concatenate(several)
        self._stream: Stream | FileOrder
        if any(source.shuffled for source in sources):
            self._stream = Stream(whole(sizes), residents, key(seed, "finite"), "")
        else:
            self._stream = FileOrder(sizes, residents, "")
        self._passes = passes
        self._excluded = excluded or {}

    @property
    def length(self) -> int:
        return self._stream.count_indices() * self._passes

    def arrange(self, starts: Sequence[int], size: int) -> Ints:
        """Return the slots of global batches, one batch per row, in ascending order except for padding."""
        slots = np.array(starts)[:, None] + np.arange(size)
        for row, start in zip(slots, starts, strict=True):
            if start + size > self.length:
                row[:] = start + inverse(_columns(self.length - start, size))
        return slots

    def look_up(self, slots: Ints) -> Planned:
        source, epoch, repeat, group, item = np.full((5, len(slots)), -1, dtype=np.int64)
        real = slots < self.length
        picks = self._stream.picks(slots[real])
        source[real] = self._source[picks.group]
        epoch[real] = picks.epoch
        repeat[real] = picks.repeat
        item[real] = picks.item
        group[real] = picks.group - self._first[source[real]]
        for number, excluded in self._excluded.items():
            [own] = np.nonzero(source == number)
            empty = own[excluded.since_of(group[own], item[own]) <= slots[own]]
            for column in (source, epoch, repeat, group, item):
                column[empty] = -1
        return Planned(slots, source, epoch, repeat, group, item)

    def stand_in(self, slot: int, attempt: int) -> None:  # noqa: ARG002
        """Return None: every item comes exactly once per pass, so a bad item leaves its slot empty."""
        return None

    def residents(self, slots: Ints) -> list[tuple[int, int]]:
        """Return (source, group) of every group that is resident at the last of these slots."""
        last = min(int(slots.max()), self.length - 1)
        numbers = [(int(self._source[group]), group) for group in self._stream.residents(last)]
        found = [(source, int(group - self._first[source])) for source, group in numbers]
        return [
            (source, group)
            for source, group in found
            if source not in self._excluded or not self._excluded[source].is_whole(group, last)
        ]

    def slots_of(self, source: int, group: int, item: int, epoch: int) -> list[int]:
        if epoch >= self._passes:
            return []
        slots = self._stream.indices(int(self._first[source]) + group, item, epoch)
        if source in self._excluded:
            slots = slots[slots < self._excluded[source].since_of(np.array([group]), np.array([item]))]
        return [int(slot) for slot in slots]

    def quotas(self, start: int, stop: int) -> None:  # noqa: ARG002
        """Return None: weights do not apply."""
        return None


def _columns(samples: int, size: int) -> Ints:
    """Return the column of each slot of a batch: sample i of n at ⌊i · size / n⌋, and padding in the other columns.

    Args:
        samples: Number of samples from the first slot of the batch to the end of the run.
        size: Size of the batch.
    """
    if not 0 < samples < size:
        return np.arange(size)
    spread = np.arange(samples) * size // samples
    return np.concatenate([spread, np.setdiff1d(np.arange(size), spread)])


def _limited(source: Source) -> Ints:
    """Return the sizes of the groups within the limit of a source. The last one may be cut."""
    sizes = source.known_sizes()
    if source.limit is None:
        return sizes
    ends = np.minimum(np.cumsum(sizes), source.limit)
    return np.diff(ends[: int(ends.searchsorted(source.limit)) + 1], prepend=0)
