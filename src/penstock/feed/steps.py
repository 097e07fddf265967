"""The steps of a walk, and the sampler by which a ``DataLoader`` takes them. Knows no plan and no data."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from penstock.runtime.callers import is_lightning

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
        state: Returns the state of the run at a step.
        resume: Returns the remaining steps of the run from a state.
    """

    def __init__(
        self,
        steps: Steps,
        walker: Walker[Any],
        state: Callable[[int], dict[str, Any]],
        resume: Callable[[Mapping[str, Any]], Steps],
    ) -> None:
        self.steps = steps
        self.walker = walker
        self.state = state
        self.resume = resume

    def __iter__(self) -> "SampledSteps":
        return SampledSteps(self)

    def __len__(self) -> int:
        if is_lightning(sys._getframe(1)):
            raise RuntimeError(
                "Lightning would divide the steps among the ranks, and each rank has its part of every step already; "
                "use penstock.integrations.lightning.PenstockDataModule(feed) instead of a DataLoader"
            )
        return len(self.steps)


class SampledSteps:
    """One ``for`` over a sampler. torchdata's ``StatefulDataLoader`` keeps its state with each batch."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._begin(sampler.steps)

    def _begin(self, steps: Steps) -> None:
        self._next = steps.start
        self._steps = iter(steps)
        self._sampling = self._sampler.walker.begin(steps)

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        step = next(self._steps)
        self._next = step + 1
        self._sampler.walker.expect(self._sampling, step)
        return step

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the run after the steps yielded so far."""
        return self._sampler.state(self._next)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._begin(self._sampler.resume(state))
