"""The loader: the batches of a feed from a step on, in order, with a state that counts the batches returned."""

import threading
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.feed.batches import Tally
from penstock.feed.sampled import Recorder
from penstock.loader.processes import Processes
from penstock.loader.threads import Threads
from penstock.runtime.forking import reset_in_children

if TYPE_CHECKING:
    from penstock.feed import Feed
    from penstock.feed.batches import MadeBatch

_DEFAULT_THREADS = 4


class Loader:
    """An iterable of batches that can be stopped and continued: a second ``for`` continues where the first stopped.

    A loader belongs to the process that made it, and one thread at a time takes batches from it. Elsewhere it raises
    ``RuntimeError``: batches that two processes share would be doubled or missing.

    Args:
        feed: makes the batches.
        start: the first step.
        threads: the number of threads of this process that make batches; 0 makes each batch when it is requested.
            4 by default.
        workers: the number of worker processes that make batches, instead of threads.
        prefetch: batches that each thread or worker makes ahead of the caller.
        pin_memory: whether to copy tensors into page-locked memory. Without an accelerator this only warns.
        ledger: records every batch that is returned.

    Attributes:
        step: the step of the next batch.
        stall: seconds that the caller waited for its last batch.
        waited: seconds that the caller waited for all batches so far.

    Raises:
        ValueError: If both threads and workers are given, or a number is too small.
    """

    def __init__(
        self,
        feed: "Feed",
        start: int = 0,
        *,
        threads: int | None = None,
        workers: int = 0,
        prefetch: int = 2,
        pin_memory: bool = False,
        ledger: Recorder | None = None,
    ) -> None:
        if workers and threads:
            raise ValueError("give threads or workers, not both: a worker process makes one batch at a time")
        if workers < 0 or (threads or 0) < 0:
            raise ValueError(f"threads={threads}, workers={workers}: both must be 0 or more")
        if prefetch < 1:
            raise ValueError(f"prefetch must be 1 or more, not {prefetch}")
        self._feed = feed
        self._workers = workers
        self._prefetch = prefetch
        self._pin_memory = pin_memory and _can_pin()
        self._threads = _DEFAULT_THREADS if threads is None else threads
        self.step = start
        self._batches: Iterator[dict[str, Any]] | None = None  # of the running engine, if there is one
        self._end: weakref.finalize[..., Loader] | None = None  # closes the engine; also when the loader is collected
        self._in_use = threading.Lock()
        self._forked = False
        reset_in_children(self)
        self._tally = Tally(feed.config.max_bad)
        self._ledger = ledger
        if ledger is not None:
            weakref.finalize(self, ledger.close)  # the last steps of a script that ends without close() count, too
        self.stall = 0.0
        self.waited = 0.0

    def __iter__(self) -> "Loader":
        return self

    def __next__(self) -> dict[str, Any]:
        with self._alone():
            return self._next()

    def _next(self) -> dict[str, Any]:
        began = time.perf_counter()
        step = self.step
        try:
            if self._batches is None:
                self._batches = self._begin()
            batch = next(self._batches)
            self._tally.add(batch)
            self.step = step + 1
            self.stall = time.perf_counter() - began
            self.waited += self.stall
            if self._ledger is not None:
                self._ledger.record(batch, self.stall)
            return batch
        except BaseException:
            # At the end, after an error, or on Ctrl-C at any line: the next call then begins at the same step again.
            self.step = step
            self.close()
            raise

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse another process than that of the loader, and a second thread."""
        if self._forked:
            raise RuntimeError(
                "this loader belongs to the process that this one was forked from; call feed.loader() in the process "
                "that takes the batches"
            )
        if not self._in_use.acquire(blocking=False):
            raise RuntimeError(
                "another thread is taking a batch from this loader; take batches in one thread, or under a lock of "
                "your own"
            )
        try:
            yield
        finally:
            self._in_use.release()

    def reset_after_fork(self) -> None:
        """Leave threads, workers and sockets to the parent."""
        self._forked = True
        self._batches = None
        if self._end is not None:
            self._end.detach()
            self._end = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a loader belongs to one process; pass the feed, and call feed.loader() in the other process")

    def _begin(self) -> Iterator[dict[str, Any]]:
        steps = self._feed.remaining(self.step)
        engine: Threads | Processes
        if self._workers:
            engine = Processes(self._feed.walk, steps, self._workers, self._prefetch)
        else:
            engine = Threads(self._feed.walk, steps, self._threads, self._prefetch * self._threads)
        self._end = weakref.finalize(self, engine.close)
        return map(_pinned_batch if self._pin_memory else _batch, engine)  # keeps no batch alive, as a generator would

    def state_dict(self) -> dict[str, Any]:
        """Return the state after the batches returned so far. Batches that were made ahead do not count.

        Returns:
            A small dict for ``load_state_dict``, that JSON can hold.
        """
        if self._ledger is not None:
            self._ledger.flush()  # a run that resumes here after a kill finds all earlier steps in the ledger
        return self._feed.state(self.step)

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Continue from a state, saved with any number of ranks, threads or workers.

        Args:
            state: what ``state_dict`` returned.
            strict: whether to refuse a state of another seed, data, mixture, pool or number of lanes.
        """
        with self._alone():
            self.close()
            self.step = self._feed.resume(state, strict=strict)

    def close(self) -> None:
        """End threads and workers, and close the ledger. Iterating again continues at ``step``."""
        self._batches = None
        if self._end is not None:
            self._end()
        if self._ledger is not None:
            self._ledger.close()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _batch(made: "MadeBatch") -> dict[str, Any]:
    return made.batch()


def _pinned_batch(made: "MadeBatch") -> dict[str, Any]:
    batch: dict[str, Any] = pinned(made.batch())
    return batch


def _can_pin() -> bool:
    """Return whether there is an accelerator to pin memory for. Warns if there is none."""
    import torch

    if torch.accelerator.is_available():
        return True
    warnings.warn("pin_memory=True does nothing here: torch finds no accelerator", stacklevel=4)
    return False


def pinned(value: Any) -> Any:
    """Return a batch, or a value of it, with all tensors in page-locked memory. Other values are unchanged."""
    if isinstance(value, dict):
        return {key: pinned(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(pinned, value))
    return value.pin_memory() if hasattr(value, "pin_memory") else value
