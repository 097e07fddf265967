"""Steps and samples: the first sample of each step, also if the batch size changes during the run."""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter


@dataclass(frozen=True, slots=True)
class Timeline:
    """The division of the samples of a run into global batches.

    Attributes:
        segments: (first step, first sample, global batch size) of each batch size, in order, the first at (0, 0).
        epoch: Samples per epoch, if no batch may hold samples of two epochs. The last batch of an epoch may be short.
    """

    segments: tuple[tuple[int, int, int], ...]
    epoch: int | None = None

    def __post_init__(self) -> None:
        if not self.segments or self.segments[0][:2] != (0, 0):
            raise ValueError(f"segments begin with [0, 0, batch size], not {list(self.segments[:1])}")
        if self.epoch is not None and self.epoch < 1:
            raise ValueError(f"an epoch of {self.epoch} samples; it must have at least 1")
        for step, _, size in self.segments:
            if size < 1:
                raise ValueError(f"a global batch of {size} samples at step {step}; it must have at least 1")
        for before, after in pairwise(self.segments):
            if after[0] <= before[0] or after[1] != self._batch(after[0], before)[0]:
                raise ValueError(f"segment {list(after)} does not continue {list(before)}")

    @classmethod
    def constant(cls, batch_size: int, epoch: int | None = None) -> "Timeline":
        return cls(((0, 0, batch_size),), epoch)

    def batch(self, step: int) -> tuple[int, int]:
        """Return the first sample and the size of the global batch of a step.

        Raises:
            IndexError: If the step is negative.
        """
        return self._batch(step, self._segment(step))

    def full_size(self, step: int) -> int:
        """Return the size that the global batch of a step would have if no epoch ended in it."""
        return self._segment(step)[2]

    def _segment(self, step: int) -> tuple[int, int, int]:
        if step < 0:
            raise IndexError(f"step {step}: steps count from 0")
        return self.segments[bisect_right(self.segments, step, key=itemgetter(0)) - 1]

    def _batch(self, step: int, segment: tuple[int, int, int]) -> tuple[int, int]:
        first, sample, size = segment
        count = step - first
        if self.epoch is None:
            return sample + count * size, size
        end = self._epoch_end(sample)
        to_end = -(-(end - sample) // size)  # batches
        if count >= to_end:
            epochs, count = divmod(count - to_end, -(-self.epoch // size))
            sample = end + epochs * self.epoch
            end = sample + self.epoch
        start = sample + count * size
        return start, min(size, end - start)

    def _epoch_end(self, sample: int) -> int:
        assert self.epoch is not None
        return sample - sample % self.epoch + self.epoch

    def step(self, sample: int) -> int:
        """Return the step whose batch holds a sample."""
        first, start, size = self.segments[bisect_right(self.segments, sample, key=itemgetter(1)) - 1]
        if self.epoch is None or sample < (end := self._epoch_end(start)):
            return first + (sample - start) // size
        epochs, within = divmod(sample - end, self.epoch)
        to_end = -(-(end - start) // size)
        return first + to_end + epochs * -(-self.epoch // size) + within // size

    def first_step(self, sample: int) -> int:
        """Return the first step that depends on a sample."""
        return self.step(sample)

    def end_slot(self, step: int) -> int:
        """Return the sample after the last of a step; 0 for step -1."""
        return self.batch(step + 1)[0]

    def signature(self, step: int) -> object:
        """Return what determines the slots of a step, to compare timelines."""
        return self.batch(step)

    def span(self, first: int, after: int) -> tuple[int, int]:
        """Return the samples of some steps: the first one, and the one after the last."""
        return self.batch(first)[0], self.batch(after)[0]

    def until(self, step: int) -> "Timeline":
        """Return the timeline without changes of the batch size after a step."""
        return Timeline(tuple(segment for segment in self.segments if segment[0] <= step), self.epoch)

    def changed(self, step: int, batch_size: int) -> "Timeline":
        """Return the timeline with another batch size from a step on."""
        sample, _ = self.batch(step)
        kept = tuple(segment for segment in self.segments if segment[0] < step)
        if kept and kept[-1][2] == batch_size:
            return Timeline(kept, self.epoch)
        return Timeline((*kept, (step, sample, batch_size)), self.epoch)
