"""A walk: steps taken in order, each planned once, with their bytes fetched before they are requested."""

from collections.abc import Callable
from contextlib import nullcontext

from penstock.feed.ahead import Ahead
from penstock.feed.batches import Batch, MadeBatch
from penstock.feed.lookup import Lookup
from penstock.feed.making import BatchMaker
from penstock.feed.steps import Steps
from penstock.feed.watching import watch


class Walk:
    """Makes the batches of some steps. Any number of threads may call it, roughly in the order of the steps.

    Close it, or use it as a context manager: until then, the data of its next steps stay pinned in the cache.

    Args:
        lookup: Plan of the walk.
        maker: Makes the batches.
        ahead: Fetches ahead; None if all stores are local.
        steps: Steps of the walk.
    """

    def __init__(self, lookup: Lookup, maker: BatchMaker, ahead: Ahead | None, steps: Steps) -> None:
        self._lookup = lookup
        self._maker = maker
        self._ahead = ahead
        self._window = ahead.begin(lookup, steps) if ahead else None
        self.steps = steps

    def made(self, step: int, skip: int = 0) -> MadeBatch:
        """Make the batch of a step, with arrays in place of tensors.

        Args:
            step: Step of the batch.
            skip: Number of rows at the beginning of the batch to leave out.
        """
        fetching = self._ahead.making(self._window, step) if self._ahead and self._window else nullcontext()
        try:
            with watch.making(step), fetching:
                return self._maker.make(self._lookup.at(step).after(skip), self._lookup.stand_in)
        finally:
            self._lookup.done(step)

    def batch(self, step: int, skip: int = 0) -> Batch:
        """Make the batch of a step, as the trainer gets it; see ``made``."""
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
