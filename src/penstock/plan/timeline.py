"""Steps and samples: at which sample of the run each step begins, also when the batch size changed on the way."""

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Timeline:
    """Segments of (first step, first sample, global batch size), in order, the first at (0, 0)."""

    segments: tuple[tuple[int, int, int], ...]

    def __post_init__(self) -> None:
        if not self.segments or self.segments[0][:2] != (0, 0):
            raise ValueError(f"segments begin with [0, 0, batch size], not {list(self.segments[:1])}")
        for step, _, size in self.segments:
            if size < 1:
                raise ValueError(f"a global batch of {size} samples at step {step}; it takes at least 1")
        for before, after in pairwise(self.segments):
            if after[0] < before[0] or after[1] != before[1] + (after[0] - before[0]) * before[2]:
                raise ValueError(f"segment {list(after)} does not go on where {list(before)} leads")

    @classmethod
    def constant(cls, batch_size: int) -> "Timeline":
        return cls(((0, 0, batch_size),))

    def batch(self, step: int) -> tuple[int, int]:
        """First sample and size of the global batch of a step."""
        if step < 0:
            raise IndexError(f"step {step}: steps count from 0")
        first, sample, size = next(s for s in reversed(self.segments) if s[0] <= step)
        return sample + (step - first) * size, size

    def step(self, sample: int) -> int:
        """The step whose batch holds a sample."""
        first, start, size = next(s for s in reversed(self.segments) if s[1] <= sample)
        return first + (sample - start) // size

    def changed(self, step: int, batch_size: int) -> "Timeline":
        """The same history before a step, and batches of another size from it on."""
        sample, _ = self.batch(step)
        kept = tuple(s for s in self.segments if s[0] < step)
        if kept and kept[-1][2] == batch_size:
            return Timeline(kept)
        return Timeline((*kept, (step, sample, batch_size)))
