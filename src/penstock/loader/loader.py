"""The loader: yields the batches of a feed in order. Its state counts the batches that it returned."""

import logging
import sys
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.config import nearest
from penstock.feed.batches import Batch, MadeBatch, MadeUnits, Tally, flat_batches, is_last_unit, only_fields
from penstock.feed.sampled import Recorder
from penstock.loader.processes import Processes
from penstock.loader.threads import Threads
from penstock.runtime.callers import is_lightning
from penstock.runtime.forking import reset_in_children

if TYPE_CHECKING:
    from penstock.feed import Feed

log = logging.getLogger(__name__)

_DEFAULT_THREADS = 4


class Loader:
    """An iterator over batches. A second ``for`` continues where the first one stopped.

    A loader belongs to the process that created it, and only one thread at a time may take batches from it. Anything
    else raises ``RuntimeError``: two processes would repeat or miss batches.

    Args:
        feed: Feed that makes the batches.
        start: First step.
        threads: Number of threads that make batches ahead; 4 by default. With 0, each batch is made on request.
        workers: Number of worker processes that make batches ahead, instead of threads.
        prefetch: Number of batches that each thread or worker makes ahead.
        pin_memory: Whether to copy tensors into page-locked memory. Without an accelerator, this only warns.
        fields: Names of the fields to return; all by default. A field that a batch does not have is left out of it.
        ledger: Recorder of every batch that is returned.

    Attributes:
        step: Step of the next batch. A state counts whole steps: one that was saved between the units of a step, in
            batches by length, repeats the step.
        stall: Seconds that the caller waited for the last batch.
        waited: Seconds that the caller waited for all batches so far.

    Raises:
        ValueError: If both threads and workers are given, if a number is too small, or if ``fields`` is not a list.

    Examples:
        >>> import penstock
        >>> with penstock.open("run.yaml").loader() as loader:
        ...     for batch in loader:
        ...         if loader.step == 3:
        ...             break
        >>> loader.state_dict()["step"]
        3
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
        fields: Collection[str] | None = None,
        ledger: Recorder | None = None,
    ) -> None:
        if workers and threads:
            raise ValueError("give threads or workers, not both: a worker process makes one batch at a time")
        if workers < 0 or (threads or 0) < 0:
            raise ValueError(f"threads={threads}, workers={workers}: both must be 0 or more")
        if prefetch < 1:
            raise ValueError(f"prefetch must be 1 or more, not {prefetch}")
        if isinstance(fields, str):
            raise ValueError(f"fields must be a list of names, not {fields!r}; write [{fields!r}]")
        self._feed = feed
        self._workers = workers
        self._prefetch = prefetch
        self._pin_memory = pin_memory and _can_pin()
        self._threads = _DEFAULT_THREADS if threads is None else threads
        self._fields = fields
        self._warned = False  # of a field that the first batch does not have
        self.step = start
        self._start = start
        self._batches: Iterator[Batch] | None = None  # of the running threads or workers
        self._end: weakref.finalize[..., Loader] | None = None  # ends them; also when the loader is collected
        self._in_use = threading.Lock()
        self._forked = False
        reset_in_children(self)
        self._tally = Tally(feed.config.max_bad)
        self._ledger = ledger
        if ledger is not None:
            weakref.finalize(self, ledger.close)  # records the last steps of a script that does not call close()
        self.stall = 0.0
        self.waited = 0.0

    def __iter__(self) -> "Loader":
        caller = sys._getframe(1)
        if self.step != self._start and is_lightning(caller) and caller.f_code.co_name == "_load_current_iterator":
            raise RuntimeError(
                f"this loader is at step {self.step}, but Lightning begins each evaluation at the first batch; "
                "use penstock.integrations.lightning.PenstockDataModule(train, evaluation)"
            )
        return self

    def __len__(self) -> int:
        """Return the number of all steps of a finite run, wherever the loader is.

        Raises:
            TypeError: If the run is endless.
        """
        return len(self._feed)

    def __bool__(self) -> bool:
        return True  # not by length: an endless run has none

    def __next__(self) -> Batch:
        with self._alone():
            batch = self._next()
        if self._fields is None:
            return batch
        self._warn_of_missing(batch, self._fields)
        return only_fields(batch, self._fields)

    def next_step(self) -> list[Batch]:
        """Return all batches of the next step: one per unit of this rank in batches by length, else a single one."""
        step = self.step
        units = []
        while self.step == step:
            units.append(next(self))
        return units

    def _warn_of_missing(self, batch: Batch, fields: Collection[str]) -> None:
        """Warn, once, of fields that the first batch does not have: a misspelt name, or media that come later."""
        if self._warned:
            return
        self._warned = True
        known = dict.fromkeys(name for each in flat_batches(batch) for name in each) | {"step": None}
        for name in fields:
            if name not in known:
                near = nearest(name, known) or f"; it has {', '.join(known)}"
                log.warning("fields: the first batch has no field %r%s", name, near)

    def _next(self) -> Batch:
        began = time.perf_counter()
        step = self.step
        try:
            if self._batches is None:
                self._batches = self._begin()
            batch = next(self._batches)
            self._tally.add(batch)
            self.step = step + is_last_unit(batch)
            self.stall = time.perf_counter() - began
            self.waited += self.stall
            self._feed.meter.record(batch, self.stall)
            if self._ledger is not None:
                self._ledger.record(batch, self.stall)
            return batch
        except BaseException:
            # At the end, after an error, or on Ctrl-C at any line: the next call starts again at the same step.
            self.step = step
            self.close()
            raise

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Raise ``RuntimeError`` in any process but that of the loader, and in a second thread."""
        if self._forked:
            raise RuntimeError(
                "this loader belongs to the parent process; call feed.loader() in the process that takes the batches"
            )
        if not self._in_use.acquire(blocking=False):
            raise RuntimeError(
                "another thread is taking a batch from this loader; take batches in one thread, or use a lock"
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

    def _begin(self) -> Iterator[Batch]:
        steps = self._feed.remaining(self.step)
        engine: Threads | Processes
        if self._workers:
            engine = Processes(self._feed.walk, steps, self._workers, self._prefetch)
        else:
            engine = Threads(self._feed.walk, steps, self._threads, self._prefetch * self._threads)
        self._end = weakref.finalize(self, engine.close)
        finish = _pinned_batch if self._pin_memory else MadeBatch.batch
        return map(finish, _SingleBatches(iter(engine)))  # unlike a generator, keeps no batch alive

    def state_dict(self) -> dict[str, Any]:
        """Return the state after the batches returned so far. Batches made ahead do not count.

        Returns:
            A small dict for ``load_state_dict``, which can be saved as JSON.

        Raises:
            RuntimeError: If Lightning saves an endless run, of which it has fetched a batch that it has not trained on.
        """
        if self._feed.remaining().stop is None and is_lightning(sys._getframe(1)):
            raise RuntimeError(
                "Lightning fetches a batch ahead of an endless run, so that this state would lose a batch; "
                "use penstock.integrations.lightning.PenstockDataModule(feed) instead of feed.loader()"
            )
        if self._ledger is not None:
            self._ledger.flush()  # a run that resumes here has all earlier steps in the ledger, even after a kill
        return self._feed.state(self.step)

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Continue from a state, saved with any number of ranks, threads or workers.

        Args:
            state: State that ``state_dict`` returned.
            strict: Whether to refuse a state of another seed, data, mixture, pool or number of lanes.

        Raises:
            StateError: If the state is invalid or, with ``strict``, belongs to another run.
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


class _SingleBatches:
    """Single batches of steps that may have several. Keeps no batch that it returned."""

    def __init__(self, steps: Iterator[MadeUnits]) -> None:
        self._steps = steps
        self._left: deque[MadeBatch] = deque()

    def __iter__(self) -> Iterator[MadeBatch]:
        return self

    def __next__(self) -> MadeBatch:
        if not self._left:
            self._left.extend(next(self._steps))
        return self._left.popleft()


def _pinned_batch(made: MadeBatch) -> Batch:
    return {key: pinned(value) for key, value in made.batch().items()}


def _can_pin() -> bool:
    """Return whether there is an accelerator to pin memory for. Warns if there is none."""
    import torch

    if torch.accelerator.is_available():
        return True
    warnings.warn("pin_memory=True has no effect: torch finds no accelerator", stacklevel=4)
    return False


def pinned(value: object) -> object:
    """Return a value of a batch with all tensors in page-locked memory. Other values are unchanged."""
    if isinstance(value, dict):
        return {key: pinned(each) for key, each in value.items()}
    if type(value) is list:
        return [pinned(each) for each in value]
    if type(value) is tuple:
        return tuple(pinned(each) for each in value)
    # As torch's DataLoader does: objects of a recipe that hold tensors have the method, too.
    return value.pin_memory() if hasattr(value, "pin_memory") else value
