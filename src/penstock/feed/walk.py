"""A walk: steps taken in order, each planned once, with their bytes fetched before they are requested."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from penstock.feed.ahead import Ahead
from penstock.feed.batches import Batch, MadeUnits
from penstock.feed.lookup import Looked, Lookup
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

    @contextmanager
    def _making(self, step: int) -> Iterator[Looked]:
        """Within the block, a step is made."""
        fetching = self._ahead.making(self._window, step) if self._ahead and self._window else nullcontext()
        try:
            with watch.making(step), fetching:
                yield self._lookup.at(step)
        finally:
            self._lookup.done(step)

    def units(self, step: int) -> MadeUnits:
        """Make all batches of a step, with arrays in place of tensors: one per unit."""
        with self._making(step) as looked:
            if looked.unit_rows is None:
                return [self._maker.make(looked, self._lookup.stand_in)]
            made = [self._maker.make(unit, self._lookup.stand_in) for unit in looked.units()]
            return [batch._replace(unit=(number, len(made))) for number, batch in enumerate(made)]

    def batch(self, step: int, skip: int = 0) -> Batch:
        """Make the batch of a step, as the trainer gets it.

        Args:
            step: Step of the batch.
            skip: Number of rows at the beginning of the batch to leave out.
        """
        with self._making(step) as looked:
            return self._maker.make(looked.after(skip), self._lookup.stand_in).batch()

    def close(self) -> None:
        if self._ahead and self._window:
            self._ahead.end(self._window)

    def __enter__(self) -> "Walk":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


OpenWalk = Callable[[Steps], Walk]
"""Opens a walk over some steps, as ``Feed.walk`` does."""
