"""The steps of a walk, and the sampler by which a ``DataLoader`` takes them. Knows no plan and no data."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps ``start``, ``start + stride``, … below ``stop`` (None: for ever).

    Examples:
        >>> import penstock
        >>> list(penstock.Steps(10, 16, stride=2))
        [10, 12, 14]
    """

    start: int
    stop: int | None = None
    stride: int = 1

    def __iter__(self) -> Iterator[int]:
        step = self.start
        while self.stop is None or step < self.stop:
            yield step
            step += self.stride

    def __len__(self) -> int:
        if self.stop is None:
            raise TypeError("an endless feed has no length; set passes for a finite one")
        return max(0, -(-(self.stop - self.start) // self.stride))

    def share(self, number: int, of: int) -> "Steps":
        """Return the steps of worker ``number`` of several workers that take turns."""
        return Steps(self.start + number * self.stride, self.stop, self.stride * of)


class Walker(Protocol[S]):
    """Is notified by a sampler of each ``for`` over it, and of each step before it is yielded."""

    def begin(self, steps: Steps) -> S: ...

    def expect(self, sampling: S, step: int) -> None: ...


class Sampler:
    """The sampler of a ``DataLoader`` over a feed. Its indices are steps.

    Args:
        steps: Steps to yield.
        walker: Object to notify.
    """

    def __init__(self, steps: Steps, walker: Walker[S]) -> None:
        self._steps = steps
        self._walker = walker

    def __iter__(self) -> Iterator[int]:
        sampling = self._walker.begin(self._steps)
        for step in self._steps:
            self._walker.expect(sampling, step)
            yield step

    def __len__(self) -> int:
        return len(self._steps)
