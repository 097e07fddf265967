"""A feed as a torch ``DataLoader`` asks it: one step at a time, in this process or in worker processes.

    DataLoader(feed, batch_size=None, sampler=feed.steps(), num_workers=n)

The sampler says which steps come; in a worker torch says that it gets every n-th of them. So steps are fetched ahead,
bad samples counted and the ledger written as with ``feed.loader()``. A worker counts what it makes: at the end of a run
that may be some batches more than the training loop received.
"""

import atexit
import multiprocessing.util
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from penstock.feed.batches import Tally
from penstock.feed.steps import Steps
from penstock.feed.walk import Walk
from penstock.runtime.forking import reset_in_children
from penstock.runtime.parents import end_with_parent


class Recorder(Protocol):
    """What is asked of a ledger."""

    def record(self, batch: dict[str, Any], stalled: float = 0.0) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class Walkable(Protocol):
    """What is asked of a feed."""

    def walk(self, steps: Steps) -> Walk: ...

    def open_ledger(self, walk: str = "", worker: int = 0) -> Recorder | None: ...


class Sampling:
    """One ``for`` over a sampler, or what one worker makes of it."""

    def __init__(self, steps: Steps, tally: Tally) -> None:
        self.next = steps.start
        self._steps = steps
        self._tally = tally
        self._walk: Walk | None = None
        self._ledger: Recorder | None = None

    def batch(self, feed: Walkable, step: int, worker: tuple[str, int] | None) -> dict[str, Any]:
        """The batch of a step.

        Args:
            worker: of several workers, what names their walk, and the number of this one.
        """
        if self._walk is None:
            self._walk = feed.walk(Steps(step, self._steps.stop, self._steps.stride))
            self._ledger = self._ledger or feed.open_ledger(*worker or ())
            _at_exit.add(self)
        batch = self._walk.batch(step)
        self.next = step + self._steps.stride
        self._tally.add(batch)
        if self._ledger is not None:
            self._ledger.record(batch)
        return batch

    def flush(self) -> None:
        """Write what the ledger has not written yet."""
        if self._ledger is not None:
            self._ledger.flush()

    def close_ledger(self) -> None:
        """Write the same, and report what could not be written."""
        if self._ledger is not None:
            self._ledger.close()

    def close(self) -> None:
        """End fetching ahead. The next batch begins it anew."""
        self.close_ledger()
        if self._walk is not None:
            self._walk.close()
        self._walk = None

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if not exiting():
            self.close_ledger()


class Sampled:
    """What ``DataLoader``s walk in this process. It does not hold the feed, which holds it.

    Args:
        max_bad: the share of bad samples past which the run stops.
    """

    def __init__(self, max_bad: float) -> None:
        self._tally = Tally(max_bad)
        self._open: weakref.WeakSet[Sampling] = weakref.WeakSet()
        self._expected: tuple[Sampling, int] | None = None
        self._of_worker: Sampling | None = None
        self._walks = 0  # of this worker

    def begin(self, steps: Steps) -> Sampling:
        """A ``for`` over a sampler starts in this process."""
        sampling = Sampling(steps, self._tally)
        self._open.add(sampling)
        return sampling

    def expect(self, sampling: Sampling, step: int) -> None:
        """The sampler has named a step: a ``DataLoader`` without workers asks this process for it next."""
        self._expected = (sampling, step)

    def batch(self, feed: Walkable, step: int) -> dict[str, Any] | None:
        """The batch of a step that a ``DataLoader`` asks for; None if it is none of its steps."""
        info = _worker_info()
        if info is not None:
            return self._batch_of_worker(feed, step, info)
        if self._expected is None or self._expected[1] != step:
            return None
        sampling, _ = self._expected
        self._expected = None
        return sampling.batch(feed, step, None)

    def _batch_of_worker(self, feed: Walkable, step: int, info: Any) -> dict[str, Any]:
        if self._of_worker is None:
            end_with_parent(os.getppid())  # torch looks for the trainer only between two batches
        if self._of_worker is None or self._of_worker.next != step:
            if self._of_worker is not None:
                self._of_worker.close()
            self._of_worker = self.begin(Steps(step, None, info.num_workers))
            self._walks += 1
        # Workers of one DataLoader have the seed in common that it drew for them.
        several = (f"{info.seed - info.id:x}-{self._walks}", info.id) if info.num_workers > 1 else None
        return self._of_worker.batch(feed, step, several)

    def flush(self) -> None:
        """Write what the ledgers have not written yet."""
        for sampling in list(self._open):
            sampling.flush()

    def close(self) -> None:
        """End fetching ahead. The next batch begins it anew."""
        for sampling in list(self._open):
            sampling.close()


class _AtExit:
    """Writes ledgers when this process ends: a script that just ends has used its last steps, too."""

    def __init__(self) -> None:
        self.reset_after_fork()
        reset_in_children(self)
        atexit.register(self.close_ledgers)

    def reset_after_fork(self) -> None:
        self._unflushed: weakref.WeakSet[Sampling] = weakref.WeakSet()
        self._in_worker = False

    def add(self, sampling: Sampling) -> None:
        self._unflushed.add(sampling)
        if not self._in_worker:  # worker processes run only what multiprocessing runs at their end
            multiprocessing.util.Finalize(None, self.close_ledgers, exitpriority=10)
            self._in_worker = True

    def close_ledgers(self) -> None:
        for sampling in list(self._unflushed):
            sampling.close_ledger()


_at_exit = _AtExit()


def _worker_info() -> Any:
    """Of a ``DataLoader``'s worker; None in other processes. Never imports torch itself."""
    data = getattr(getattr(sys.modules.get("torch"), "utils", None), "data", None)
    return None if data is None else data.get_worker_info()
