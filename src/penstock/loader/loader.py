"""The loader: a feed's batches from a step on, in order, with a state that counts what was handed out."""

import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Protocol

from penstock.loader.processes import Processes
from penstock.loader.threads import Threads

if TYPE_CHECKING:
    from penstock.feed import Feed

_THREADS = 4
_ENOUGH = 1_000  # samples before the share of bad ones means something


class Recorder(Protocol):
    """What a loader asks of a ledger."""

    def record(self, batch: dict[str, Any], stalled: float) -> None: ...

    def flush(self) -> None: ...


class TooManyBad(RuntimeError):
    """More samples than ``max_bad`` allows could not be decoded."""


class Loader:
    """An iterable of batches that can be stopped and continued: a second ``for`` goes on where the first stopped.

    Args:
        threads: batches are made ahead by so many threads of this process; 0 makes each when it is asked for.
        workers: batches are made by so many processes of their own instead.
        prefetch: batches that each thread or worker is ahead of the caller.
        ledger: where every batch that is handed out is noted.

    ``stall`` is how many seconds the caller stood still for its last batch, ``waited`` for all of them.
    """

    def __init__(
        self,
        feed: "Feed",
        start: int = 0,
        *,
        threads: int | None = None,
        workers: int = 0,
        prefetch: int = 2,
        ledger: Recorder | None = None,
    ) -> None:
        if workers and threads:
            raise ValueError("give threads or workers, not both: a worker process makes one batch at a time")
        if workers < 0 or (threads or 0) < 0:
            raise ValueError(f"threads={threads}, workers={workers}: there can't be fewer than none")
        if prefetch < 1:
            raise ValueError(f"prefetch is 1 or more, not {prefetch}: a batch is made before it is handed out")
        self._feed, self._workers, self._prefetch = feed, workers, prefetch
        self._threads = _THREADS if threads is None else threads
        self.step = start  # of the next batch that is handed out
        self._batches: Iterator[dict[str, Any]] | None = None  # of the engine that is running, if one is
        self._end: Callable[[], object] = lambda: None  # ends that engine; also when the loader is collected, once
        self._seen = self._bad = 0
        self._ledger = ledger
        if ledger is not None:
            weakref.finalize(self, ledger.flush)  # a script that just ends has used its last steps, too
        self.stall = self.waited = 0.0  # seconds that the caller stood still for the last batch; for all so far

    def __iter__(self) -> "Loader":
        return self

    def __next__(self) -> dict[str, Any]:
        began = time.perf_counter()
        try:
            if self._batches is None:
                self._batches = self._begin()
            batch = next(self._batches)
            self._watch(batch)
        except BaseException:
            self.close()  # at the end, or at an error: then the next call begins at this same step again
            raise
        self.step += 1
        self.stall = time.perf_counter() - began
        self.waited += self.stall
        if self._ledger is not None:
            self._ledger.record(batch, self.stall)
        return batch

    def _begin(self) -> Iterator[dict[str, Any]]:
        steps = self._feed.steps(self.step)
        engine: Threads | Processes
        if self._workers:
            engine = Processes(self._feed.made, steps, self._workers, self._prefetch)
        else:
            engine = Threads(self._feed.made, steps, self._threads, self._prefetch * self._threads)
        self._end = weakref.finalize(self, engine.close)
        return map(methodcaller("batch"), engine)  # which holds none of them while the next is made

    def _watch(self, batch: dict[str, Any]) -> None:
        self._seen += len(batch["ids"])
        self._bad += len(batch["bad"])
        if batch["bad"] and self._seen >= _ENOUGH and self._bad > self._feed.config.max_bad * self._seen:
            last = batch["bad"][-1]
            raise TooManyBad(
                f"{self._bad} of {self._seen} samples were bad, more than max_bad: {self._feed.config.max_bad} allows; "
                f"the last: {last.reason}"
            )

    def state_dict(self) -> dict[str, Any]:
        """The state after the batches handed out so far; what was made ahead does not count."""
        if self._ledger is not None:
            self._ledger.flush()  # who goes on from here after a kill finds all earlier steps in the ledger
        return self._feed.state(self.step)

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Go on from a state, saved under any number of ranks, threads or workers."""
        self.close()
        self.step = self._feed.resume(state, strict=strict)

    def close(self) -> None:
        """End threads and workers. The loader can still be walked on: it then begins anew at its step."""
        self._batches = None
        self._end()
        if self._ledger is not None:
            self._ledger.flush()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
