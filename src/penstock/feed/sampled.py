"""A feed as the dataset of a torch ``DataLoader``: one step at a time, in this process or in worker processes.

    DataLoader(feed, batch_size=None, sampler=feed.steps(), num_workers=n)

The sampler says which steps come, and torch says which of n workers this is: it gets every n-th step. So steps are
fetched ahead, bad samples are counted and the ledger is written as with ``feed.loader()``. A worker counts the batches
that it makes: at the end of a run these may be a few more than the training loop received.
"""

import atexit
import multiprocessing.util
import os
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.feed.batches import Batch, Tally
from penstock.feed.meter import Meter
from penstock.feed.steps import Steps
from penstock.feed.walk import Walk
from penstock.runtime.forking import reset_in_children
from penstock.runtime.parents import end_with_parent

if TYPE_CHECKING:
    from torch.utils.data._utils.worker import WorkerInfo


class WorkerOfWalk(NamedTuple):
    """One of the ``DataLoader`` workers that share a walk.

    Attributes:
        walk: Id of the walk, the same for all of its workers.
        number: Number of the worker.
    """

    walk: str
    number: int


class Recorder(Protocol):
    """The part of a ledger that records batches."""

    def record(self, batch: Batch, stalled: float = 0.0) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class Walkable(Protocol):
    """The part of a feed that makes batches and opens ledgers."""

    meter: Meter

    def walk(self, steps: Steps) -> Walk: ...

    def open_ledger(self, walk: str = "", worker: int = 0) -> Recorder | None: ...


class Sampling:
    """The batches of one ``for`` over a sampler, or one worker's share of them.

    Args:
        steps: Steps of the sampler, or of the worker.
        tally: Counter of bad samples.

    Attributes:
        next: Next step of a worker.
    """

    def __init__(self, steps: Steps, tally: Tally) -> None:
        self.next = steps.start
        self._steps = steps
        self._tally = tally
        self._walk: Walk | None = None
        self._ledger: Recorder | None = None

    def units(self, feed: Walkable, step: int, worker: WorkerOfWalk | None) -> list[Batch]:
        """Return the batches of a step: one per unit, in batches by length, else a single one.

        Args:
            feed: Feed that makes the batches.
            step: Step of the batches.
            worker: This worker, if there are several.
        """
        if self._walk is None:
            self._walk = feed.walk(Steps(step, self._steps.stop, self._steps.stride))
            self._ledger = self._ledger or feed.open_ledger(*worker or ())
            _at_exit.add(self)
        units = [made.batch() for made in self._walk.units(step)]
        self.next = step + self._steps.stride
        for batch in units:
            self._tally.add(batch)
            feed.meter.record(batch)
            if self._ledger is not None:
                self._ledger.record(batch)
        return units

    def flush(self) -> None:
        """Write to the ledger what it has not written yet."""
        if self._ledger is not None:
            self._ledger.flush()

    def close_ledger(self) -> None:
        """Flush the ledger, and report what could not be written."""
        if self._ledger is not None:
            self._ledger.close()

    def close(self) -> None:
        """Stop fetching ahead. The next batch starts it again."""
        self.close_ledger()
        if self._walk is not None:
            self._walk.close()
        self._walk = None

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if not exiting():
            self.close_ledger()


class Sampled:
    """The walks of all ``DataLoader`` objects in this process. Does not refer to the feed, which owns it.

    Args:
        max_bad: Maximum share of bad samples.
    """

    def __init__(self, max_bad: float) -> None:
        self._tally = Tally(max_bad)
        self._open: weakref.WeakSet[Sampling] = weakref.WeakSet()
        self._expected: tuple[Sampling, int] | None = None
        self._of_worker: Sampling | None = None
        self._walks = 0  # begun by this worker

    def begin(self, steps: Steps) -> Sampling:
        """Begin a ``for`` over a sampler."""
        sampling = Sampling(steps, self._tally)
        self._open.add(sampling)
        return sampling

    def expect(self, sampling: Sampling, step: int) -> None:
        """Note the step that a sampler yields: a ``DataLoader`` without workers requests it next."""
        self._expected = (sampling, step)

    def units(self, feed: Walkable, step: int) -> list[Batch] | None:
        """Return the batches of a step that a ``DataLoader`` requests; None if no sampler has yielded this step."""
        info = _worker_info()
        if info is not None:
            return self._units_of_worker(feed, step, info)
        if self._expected is None or self._expected[1] != step:
            return None
        sampling, _ = self._expected
        self._expected = None
        return sampling.units(feed, step, None)

    def _units_of_worker(self, feed: Walkable, step: int, info: "WorkerInfo") -> list[Batch]:
        if self._of_worker is None:
            end_with_parent(os.getppid())  # torch checks for the trainer only between two batches
        if self._of_worker is None or self._of_worker.next != step:
            if self._of_worker is not None:
                self._of_worker.close()
            self._of_worker = self.begin(Steps(step, None, info.num_workers))
            self._walks += 1
        # seed - id is the same for all workers of one DataLoader.
        several = WorkerOfWalk(f"{info.seed - info.id:x}-{self._walks}", info.id) if info.num_workers > 1 else None
        return self._of_worker.units(feed, step, several)

    def flush(self) -> None:
        """Write to the ledgers what they have not written yet."""
        for sampling in list(self._open):
            sampling.flush()

    def close(self) -> None:
        """Stop fetching ahead. The next batch starts it again."""
        for sampling in list(self._open):
            sampling.close()


class _AtExit:
    """Writes ledgers when this process ends, so that the last steps of a script without ``close`` are recorded."""

    def __init__(self) -> None:
        self.reset_after_fork()
        reset_in_children(self)
        atexit.register(self.close_ledgers)

    def reset_after_fork(self) -> None:
        self._unflushed: weakref.WeakSet[Sampling] = weakref.WeakSet()
        self._in_worker = False

    def add(self, sampling: Sampling) -> None:
        self._unflushed.add(sampling)
        if not self._in_worker:  # worker processes run only the finalizers of multiprocessing
            multiprocessing.util.Finalize(None, self.close_ledgers, exitpriority=10)
            self._in_worker = True

    def close_ledgers(self) -> None:
        for sampling in list(self._unflushed):
            sampling.close_ledger()


_at_exit = _AtExit()


def _worker_info() -> "WorkerInfo | None":
    """Return what torch says of this ``DataLoader`` worker; None in other processes. Never imports torch itself."""
    # The attribute is there once the import is complete. In ``sys.modules`` another thread's import may be unfinished.
    data = getattr(sys.modules.get("torch.utils"), "data", None)
    return None if data is None else data.get_worker_info()
