"""A feed as a torch ``IterableDataset`` of samples, epoch after epoch, for a plain ``DataLoader``.

With ``batch_size``, a worker makes every n-th batch: the order is the same for any number of workers. Without it, a
worker can't know which samples become a batch, and has samples of its own, as a rank has. Knows no kind of data.
"""

import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from torch.utils.data import IterableDataset

from penstock.compat.starts import Start, Starts, Worker, this_worker
from penstock.compat.turns import share
from penstock.feed import Feed
from penstock.feed.state import StateError
from penstock.feed.steps import Steps
from penstock.plan.timeline import Timeline
from penstock.runtime.parents import end_with_parent

OWN_BATCH = 32  # samples that are made at once where the batch size is not known


class Received(NamedTuple):
    """How much of a step the loop over this process's samples has received.

    Attributes:
        first: sample of the step, over all ranks.
        size: samples of the step, over all ranks.
        rows: samples of the step that this rank makes.
        taken: how many of these the loop has.
    """

    first: int
    size: int
    rows: int
    taken: int


class EpochStream(IterableDataset[Any]):
    """Samples of a feed whose batches end with each epoch. Each ``for`` is the next epoch.

    Args:
        feed: makes the samples.
        batch_size: that of the ``DataLoader``, per rank; None if it is not known.
        own_batch: samples that are made at once where the batch size is not known.
    """

    def __init__(self, feed: Feed, batch_size: int | None, own_batch: int = OWN_BATCH) -> None:
        self.feed = feed
        self.batch_size = batch_size
        self._own_batch = own_batch
        self._received: Received | None = None  # None: no ``for`` began in this process since the start was set
        self._starts = Starts()
        self._ends_with_parent = False  # this process, as a worker
        self._warn_of_unequal_ranks()

    def samples(self, batch: dict[str, Any], epoch: int) -> Iterator[Any]:
        """Yield the samples of a batch of the feed as the user gets them."""
        raise NotImplementedError

    @property
    def epoch_samples(self) -> int:
        """Samples of an epoch, over all ranks."""
        samples = self.feed.plan.epoch
        assert samples is not None
        return samples

    def __iter__(self) -> Iterator[Any]:
        worker = this_worker()
        if worker is not None and not self._ends_with_parent:
            end_with_parent(os.getppid())  # torch looks for the trainer only between two batches
            self._ends_with_parent = True
        start = self._starts.begin(worker)
        worker = worker or Worker(0, 1, 0)
        made = self._every_nth_batch(start, worker) if self.batch_size is not None else self._own(start, worker)
        empty = True
        for sample in made:
            empty = False
            yield sample
        if empty and start.batches == 0:
            warnings.warn(
                f"worker {worker.number} of {worker.workers} gets no data: there are fewer batches than workers; use "
                "fewer workers",
                UserWarning,
                stacklevel=2,
            )

    def _every_nth_batch(self, start: Start, worker: Worker) -> Iterator[Any]:
        timeline = self._timeline(start)
        steps = self._steps(timeline, start.epoch)
        taken = Steps(steps.start + start.batches + worker.number, steps.stop, worker.workers)
        return self._walked(taken, self.feed.rank, self.feed.world, timeline)

    def _own(self, start: Start, worker: Worker) -> Iterator[Any]:
        """Yield the samples of one worker, which makes batches as if it were a rank."""
        world = self.feed.world * worker.workers
        first_rank = self.feed.rank * worker.workers
        if start.segments is not None:  # all samples before one were used, whoever made them
            return self._rest(start, first_rank + worker.number, world)
        timeline = Timeline.constant(self._own_batch * world, self.epoch_samples)
        steps = self._steps(timeline, start.epoch)
        assert steps.stop is not None
        lengths = [
            (len(steps) - 1) * self._own_batch + self.feed.plan.rows(steps.stop - 1, rank, world, timeline)
            for rank in range(first_rank, first_rank + worker.workers)
        ]
        own = share(worker.number, lengths, start.batches, start.batch_size)
        batches, skip = divmod(own.skip, self._own_batch)
        taken = Steps(steps.start + batches, steps.stop)
        return self._walked(taken, first_rank + own.role, world, timeline, skip)

    def _rest(self, start: Start, rank: int, world: int) -> Iterator[Any]:
        """Yield one worker's share of the samples that are left of an epoch."""
        before = self._timeline(start)
        step = self._steps(before, start.epoch).start + start.batches
        timeline = before.changed(step, self._own_batch * world)
        return self._walked(Steps(step, self._steps(timeline, start.epoch).stop), rank, world, timeline)

    def _walked(self, steps: Steps, rank: int, world: int, timeline: Timeline, skip: int = 0) -> Iterator[Any]:
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

    def _timeline(self, start: Start | None = None) -> Timeline:
        if start is not None and start.segments is not None:
            return Timeline(tuple((step, sample, size) for step, sample, size in start.segments), self.epoch_samples)
        size = self.batch_size or self._own_batch
        return Timeline.constant(size * self.feed.world, self.epoch_samples)

    def _steps(self, timeline: Timeline, epoch: int) -> Steps:
        """Return the steps of an epoch."""
        first = epoch * self.epoch_samples
        return Steps(timeline.step(first), timeline.step(first + self.epoch_samples))

    def state_dict(self, batches_consumed: int) -> dict[str, Any]:
        """Return a state, the same for every rank.

        Args:
            batches_consumed: the trainer's own count, over all epochs. The stream can't know it: a ``DataLoader``
                makes batches ahead.
        """
        if self.batch_size is None:
            raise ValueError("give batch_size to the dataset, or write the state by hand, with the DataLoader's")
        return {
            "batches_consumed": int(batches_consumed),
            "batch_size": self.batch_size,
            "world_size": self.feed.world,
            "fingerprint": self.feed.identity.fingerprint(1),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next ``for`` go on after some batches. It yields the rest of their epoch.

        Args:
            state: ``batches_consumed`` and ``batch_size`` of each rank. The count is over all epochs, or with ``epoch``
                of that epoch. ``world_size``, if it was another one. What ``state_dict`` returns has all of it.

        Raises:
            StateError: If it is not a state, or one of another run.
        """
        try:
            batches = int(state["batches_consumed"])
            batch_size = int(state["batch_size"])
            before = Timeline.constant(batch_size * int(state.get("world_size", self.feed.world)), self.epoch_samples)
            if "epoch" in state:
                batches += before.step(int(state["epoch"]) * self.epoch_samples)
            sample, _ = before.batch(batches)
        except KeyError as missing:
            raise StateError(f"not a state of a stream: it has no {missing}") from None
        except (TypeError, ValueError, IndexError) as error:
            raise StateError(f"not a state of a stream: {error}") from None
        mine = self.feed.identity.fingerprint(1)
        if state.get("fingerprint", mine) != mine:
            raise StateError("this state belongs to another run: its data or its seed differ")
        epoch = sample // self.epoch_samples
        in_epoch = batches - before.step(epoch * self.epoch_samples)
        self._received = None
        if self.batch_size is None:
            self._starts.set_next(Start(epoch, in_epoch, batch_size))
            return
        after = before.changed(batches, self.batch_size * self.feed.world)
        first = after.step(epoch * self.epoch_samples)
        self._starts.set_next(Start(epoch, batches - first, batch_size, [list(each) for each in after.segments]))

    def _warn_of_unequal_ranks(self) -> None:
        world = self.feed.world
        last = self.epoch_samples % (world * (self.batch_size or self._own_batch))
        if last % world:
            warnings.warn(
                f"the last batch of an epoch has {last} samples, which {world} ranks can't share equally: some get one "
                "more than others"
                + (", and some get no last batch" if last < world else "")
                + "; leave it out with drop_last=True",
                UserWarning,
                stacklevel=4,
            )
