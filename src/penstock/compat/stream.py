"""A feed as a torch ``IterableDataset`` of samples, epoch after epoch, for a plain ``DataLoader``.

With ``batch_size``, a worker makes every n-th batch: the order is the same for any number of workers. Without it, a
worker can't know which samples become a batch, and has samples of its own, as a rank has. Knows no kind of data.
"""

import os
import sys
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.context import get_spawning_popen
from typing import Any, NamedTuple, TypeVar

from torch.utils.data import IterableDataset

from penstock.compat.starts import ALONE, LoaderWorker, Start, Starts, this_worker
from penstock.compat.states import read_state, timeline_of, write_state
from penstock.feed import Feed
from penstock.feed.steps import Steps
from penstock.plan.cut import rank_bounds
from penstock.plan.timeline import Timeline
from penstock.runtime.parents import end_with_parent

S = TypeVar("S")

OWN_BATCH = 32  # samples made at once if the batch size is unknown


class Received(NamedTuple):
    """How much of a step the loop over this process's samples has received.

    Attributes:
        first: First sample of the step over all ranks.
        size: Samples of the step over all ranks.
        rows: Samples of the step on this rank.
        taken: Samples of this rank that the loop has received.
    """

    first: int
    size: int
    rows: int
    taken: int


class EpochStream(IterableDataset[S]):
    """Samples of a feed whose batches end with each epoch. Each ``for`` is the next epoch.

    Args:
        feed: Feed of the samples.
        batch_size: Batch size of the ``DataLoader``, per rank; None if unknown.
        own_batch: Samples made at once if the batch size is unknown.
    """

    def __init__(self, feed: Feed, batch_size: int | None, own_batch: int = OWN_BATCH) -> None:
        self.feed = feed
        self.batch_size = batch_size
        rank_bounds(feed.world, feed.rank, feed.world)  # validates rank < world
        self._own_batch = own_batch
        self._received: Received | None = None  # None: no ``for`` began in this process since the start was set
        self._starts = Starts()
        self._ends_with_parent = False  # this process, as a worker
        self._warn_of_unequal_ranks()

    @abstractmethod
    def samples(self, batch: dict[str, Any], epoch: int) -> Iterator[S]:
        """Yield the samples of a batch, in the form that users get."""

    @property
    def epoch_samples(self) -> int:
        """Samples per epoch over all ranks."""
        samples = self.feed.plan.epoch
        assert samples is not None
        return samples

    def last_batches(self) -> tuple[int, int]:
        """Return the samples in the last batch of the next ``for`` and of the one after it, over all ranks."""
        start = self._starts.next()
        timeline = self._timeline(start)
        last = [self._steps(timeline, epoch).stop for epoch in (start.epoch, start.epoch + 1)]
        this, following = (timeline.batch(stop - 1)[1] for stop in last if stop is not None)
        return this, following

    def __iter__(self) -> Iterator[S]:
        self._refuse_prepared()
        return self._epoch()

    def __getstate__(self) -> dict[str, Any]:
        if get_spawning_popen() is not None:  # a spawned worker can't see what the loaders of this process are
            self._refuse_prepared()
        return self.__dict__.copy()

    def _refuse_prepared(self) -> None:
        """Raise if Accelerate divides among the ranks what is one rank's share already."""
        if self.feed.world > 1 and _is_divided(self):
            raise RuntimeError(
                f"this dataset gives each of {self.feed.world} ranks its own samples, and Accelerate would divide them "
                "once more, so that most are lost: do not pass its DataLoader to accelerator.prepare, or give "
                "rank=0, world_size=1 to the dataset"
            )

    def _epoch(self) -> Iterator[S]:
        worker = this_worker()
        if worker is not None and not self._ends_with_parent:
            end_with_parent(os.getppid())  # torch looks for the trainer only between two batches
            self._ends_with_parent = True
        start = self._starts.begin(worker, lambda start: self._settled(start, worker or ALONE))
        worker = worker or ALONE
        made = self._every_nth_batch(start, worker) if self.batch_size is not None else self._own(start, worker)
        empty = True
        for sample in made:
            empty = False
            yield sample
        if empty and start.batches == 0:
            self._warn_of_no_data(worker)

    def _every_nth_batch(self, start: Start, worker: LoaderWorker) -> Iterator[S]:
        timeline = self._timeline(start)
        steps = self._steps(timeline, start.epoch)
        taken = Steps(steps.start + start.batches + worker.number, steps.stop, worker.workers)
        return self._walked(taken, self.feed.rank, self.feed.world, timeline)

    def _own(self, start: Start, worker: LoaderWorker) -> Iterator[S]:
        """Yield the samples of one worker, which makes batches as if it were a rank."""
        if start.segments is not None:  # all samples before one were used, whoever made them
            return self._rest(start, worker)
        timeline = self._own_timeline(worker)
        own = share(worker.number, self._lengths(worker), start.batches, start.batch_size)
        batches, skip = divmod(own.skip, self._own_batch)
        steps = self._steps(timeline, start.epoch)
        taken = Steps(steps.start + batches, steps.stop)
        rank = self.feed.rank * worker.workers + own.role
        return self._walked(taken, rank, self.feed.world * worker.workers, timeline, skip)

    def _settled(self, start: Start, worker: LoaderWorker) -> Start:
        """Return the same start, counted from the beginning of the epoch that it is in."""
        if self.batch_size is not None or start.segments is not None or not start.batches:
            return start
        epochs, batches = divmod(start.batches, batch_count(self._lengths(worker), start.batch_size))
        return Start(start.epoch + epochs, batches, start.batch_size)

    def _own_timeline(self, worker: LoaderWorker) -> Timeline:
        return Timeline.constant(self._own_batch * self.feed.world * worker.workers, self.epoch_samples)

    def _lengths(self, worker: LoaderWorker) -> list[int]:
        """Return how many samples of an epoch each worker of this rank makes, where each makes its own."""
        world = self.feed.world * worker.workers
        first = self.feed.rank * worker.workers
        timeline = self._own_timeline(worker)
        last = timeline.step(self.epoch_samples) - 1
        return [
            last * self._own_batch + self.feed.plan.rows(last, rank, world, timeline)
            for rank in range(first, first + worker.workers)
        ]

    def _rest(self, start: Start, worker: LoaderWorker) -> Iterator[S]:
        """Yield one worker's share of the samples that are left of an epoch."""
        before = self._timeline(start)
        step = self._steps(before, start.epoch).start + start.batches
        world = self.feed.world * worker.workers
        timeline = before.changed(step, self._own_batch * world)
        taken = Steps(step, self._steps(timeline, start.epoch).stop)
        return self._walked(taken, self.feed.rank * worker.workers + worker.number, world, timeline)

    def _walked(self, steps: Steps, rank: int, world: int, timeline: Timeline, skip: int = 0) -> Iterator[S]:
        first, _ = timeline.batch(steps.start)
        epoch = first // self.epoch_samples
        self._received = Received(first, 0, 0, 0)
        with self.feed.walk(steps, rank, world, timeline) as walk:
            for step in steps:
                first, size = timeline.batch(step)
                rows = self.feed.plan.rows(step, rank, world, timeline)
                for taken, sample in enumerate(self.samples(walk.batch(step, skip), epoch), skip + 1):
                    self._received = Received(first, size, rows, taken)
                    yield sample
                skip = 0
        self._received = Received((epoch + 1) * self.epoch_samples, 0, 0, 0)

    def _timeline(self, start: Start) -> Timeline:
        return timeline_of(start, (self.batch_size or self._own_batch) * self.feed.world, self.epoch_samples)

    def _steps(self, timeline: Timeline, epoch: int) -> Steps:
        """Return the steps of an epoch."""
        first = epoch * self.epoch_samples
        return Steps(timeline.step(first), timeline.step(first + self.epoch_samples))

    def state_dict(self, batches_consumed: int, *, epoch: int | None = None) -> dict[str, Any]:
        """Return a state, the same for every rank.

        Args:
            batches_consumed: Batches that the trainer has used, over all epochs. The stream can't know it: a
                ``DataLoader`` makes batches ahead.
            epoch: If given, ``batches_consumed`` counts the batches of this epoch alone. Required with ``drop_last``:
                the trainer's count over all epochs lacks the dropped batches.
        """
        if self.batch_size is None:
            raise ValueError("give batch_size to the dataset, or write the state by hand, with the DataLoader's")
        timeline = self._timeline(self._starts.next())
        return write_state(batches_consumed, epoch, self.batch_size, self.feed.world, timeline, self.feed.identity)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after some batches: the next ``for`` yields the rest of their epoch.

        It also reaches persistent workers of a ``DataLoader``, at their next ``for``.

        Args:
            state: What ``state_dict`` returned, or a dict with ``batches_consumed`` and ``batch_size`` (per rank). With
                ``epoch``, the count is of that epoch alone. ``world_size`` is required if it has changed.

        Raises:
            StateError: If it is not a state, or one of another run.
        """
        self._received = None
        start = read_state(state, self.batch_size, self.feed.world, self.epoch_samples, self.feed.identity)
        self._starts.set_next(start)

    def _warn_of_no_data(self, worker: LoaderWorker) -> None:
        rank = self.feed.rank
        world = self.feed.world
        if self.epoch_samples * (rank + 1) // world == self.epoch_samples * rank // world:
            message = f"rank {rank} of {world} gets no data: an epoch has {self.epoch_samples} samples; use fewer ranks"
        else:
            message = (
                f"worker {worker.number} of {worker.workers} gets no data: an epoch has fewer batches than there are "
                "workers; use fewer workers"
            )
        warnings.warn(message, UserWarning, stacklevel=3)

    def _warn_of_unequal_ranks(self) -> None:
        world = self.feed.world
        batch_size = self.batch_size or self._own_batch
        last = self.epoch_samples % (world * batch_size)
        if not last % world:
            return
        least = last // world
        message = (
            f"the last batch of an epoch has {last} samples, which {world} ranks can't share equally: "
            f"some get {least}, others {least + 1}; "
        )
        if self.batch_size is not None and least + 1 == batch_size:
            message += "drop_last=True drops it only where it is short: use another batch_size"
        else:
            message += "leave it out with drop_last=True"
        warnings.warn(message, UserWarning, stacklevel=4)


def _is_divided(dataset: object) -> bool:
    """Return whether a loader that Accelerate prepared for several processes iterates over a dataset now."""
    if "accelerate" not in sys.modules:
        return False
    from accelerate.data_loader import DataLoaderDispatcher
    from accelerate.state import GradientState

    for loader in GradientState().dataloader_references:
        processes = loader.state.num_processes if isinstance(loader, DataLoaderDispatcher) else 1
        if _processes_around(dataset, getattr(loader, "dataset", None), processes) > 1:
            return True
    return False


def _processes_around(dataset: object, within: object, processes: int) -> int:
    """Return the number of processes that share a dataset; 0 if it is not within the other one.

    Args:
        dataset: Dataset to look for.
        within: A dataset, a shard of one, or datasets joined by ``ChainDataset``.
        processes: Number of processes among which ``within`` is divided.
    """
    if within is None or within is dataset:
        return 0 if within is None else processes
    processes = max(processes, getattr(within, "num_processes", 1))  # of a shard
    joined = getattr(within, "datasets", ())
    inner = [getattr(within, "dataset", None), *(joined if isinstance(joined, list | tuple) else ())]
    return max(_processes_around(dataset, each, processes) for each in inner)


class WorkerShare(NamedTuple):
    """What one worker makes of the rest of an epoch.

    Attributes:
        role: Worker whose samples it makes.
        skip: Number of those samples that were used already.
    """

    role: int
    skip: int


def batch_count(lengths: Sequence[int], batch_size: int) -> int:
    """Return the number of batches of an epoch, given the samples of each worker. Their last batches may be short."""
    return sum(_counts(lengths, batch_size))


def share(worker: int, lengths: Sequence[int], batches: int, batch_size: int) -> WorkerShare:
    """Return what a worker makes after some batches of an epoch were used.

    A ``DataLoader`` takes one batch of each worker in turn, and passes over workers that have no more. When it starts
    again in the middle of an epoch, the worker that was next has to come first.

    Args:
        worker: Number of the worker.
        lengths: Samples per worker and epoch.
        batches: Batches used so far.
        batch_size: Samples per batch.
    """
    if not batches:
        return WorkerShare(worker, 0)
    counts = _counts(lengths, batch_size)
    rounds, left = divmod(batches, len(lengths))
    used = [min(rounds, min(counts))] * len(lengths)
    left = batches - sum(used)
    following = 0
    while left and used != counts:
        following = next(number for number in _after(following, len(lengths)) if used[number] < counts[number])
        used[following] += 1
        left -= 1
        following = (following + 1) % len(lengths)
    role = (worker + following) % len(lengths)
    return WorkerShare(role, min(lengths[role], used[role] * batch_size))


def _counts(lengths: Sequence[int], batch_size: int) -> list[int]:
    return [-(-length // batch_size) for length in lengths]


def _after(first: int, count: int) -> list[int]:
    return [number % count for number in range(first, first + count)]
