"""Which steps a walk takes, and the sampler by which a ``DataLoader`` takes them. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps ``start``, ``start + stride``, … below ``stop`` (None: for ever)."""

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
        """The steps of one of several workers that take turns."""
        return Steps(self.start + number * self.stride, self.stop, self.stride * of)


class Walker(Protocol):
    """What a sampler notifies of a ``for`` over it, and of each step before it yields it."""

    def begin(self, steps: Steps) -> Any: ...

    def expect(self, sampling: Any, step: int) -> None: ...


class Sampler:
    """The indices of a ``DataLoader`` over a feed: its steps."""

    def __init__(self, steps: Steps, walker: Walker) -> None:
        self._steps = steps
        self._walker = walker

    def __iter__(self) -> Iterator[int]:
        sampling = self._walker.begin(self._steps)
        for step in self._steps:
            self._walker.expect(sampling, step)
            yield step

    def __len__(self) -> int:
        return len(self._steps)
