"""A walk: steps that are taken in order, each planned once, with their bytes fetched before they are asked for."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from penstock.feed.ahead import Ahead
from penstock.feed.batches import MadeBatch
from penstock.feed.lookup import Lookup
from penstock.feed.making import BatchMaker
from penstock.feed.steps import Steps
from penstock.feed.watching import watch


class Walk:
    """Makes the batches of some steps. Any number of threads may ask, about in the order of the steps.

    Close it, or use it as a context manager: until then what its next steps need stays in the cache.
    """

    def __init__(self, lookup: Lookup, maker: BatchMaker, ahead: Ahead | None, steps: Steps) -> None:
        self._lookup = lookup
        self._maker = maker
        self._ahead = ahead
        self._window = ahead.begin(lookup, steps) if ahead else None
        self.steps = steps

    def made(self, step: int, skip: int = 0) -> MadeBatch:
        """A batch as recipes leave it, with arrays for tensors.

        Args:
            step: the step.
            skip: rows at the beginning of the batch that are left out.
        """
        fetching = self._ahead.making(self._window, step) if self._ahead and self._window else nullcontext()
        try:
            with watch.making(step), fetching:
                return self._maker.make(self._lookup.at(step).after(skip))
        finally:
            self._lookup.done(step)

    def batch(self, step: int, skip: int = 0) -> dict[str, Any]:
        """A batch as the trainer gets it; see ``made``."""
        return self.made(step, skip).batch()

    def close(self) -> None:
        if self._ahead and self._window:
            self._ahead.end(self._window)

    def __enter__(self) -> "Walk":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


OpenWalk = Callable[[Steps], Walk]
"""Opens a walk over some steps, as ``Feed.walk`` does."""
