"""A stream that knows how many samples its loop has received, and resumes after any of them. Knows no kind of data."""

from penstock.compat.starts import Start, this_worker
from penstock.compat.stream import EpochStream, S
from penstock.feed.state import StateError
from penstock.plan.timeline import Timeline


class CountedStream(EpochStream[S]):
    """An ``EpochStream`` whose state is the number of samples that were received."""

    def position(self, batches: int | None = None) -> int:
        """Return how many samples were received by the loop, over all ranks and epochs.

        Args:
            batches: Batches that the loop received in the latest ``for``. Required if a ``DataLoader`` has workers,
                which make batches ahead; ignored without workers.

        Raises:
            StateError: If it is not known.
        """
        if this_worker() is not None:
            raise StateError("a worker of a DataLoader can't know what the training loop received; ask in its process")
        in_workers = self._starts.in_workers()
        if in_workers is not None:
            return self._position_after(in_workers, batches)
        if self._received is None:
            return self._first_sample(self._starts.next())
        first, size, rows, taken = self._received
        if taken == rows:
            return first + size
        if rows == size:  # there is one rank
            return first + taken
        raise StateError(
            f"{taken} samples of a batch of {rows} were received: with {self.feed.world} ranks a state is exact "
            "between two batches only; give batch_size to the dataset, and save after a whole batch"
        )

    def _position_after(self, begun: Start, batches: int | None) -> int:
        if self.batch_size is None or batches is None:
            raise StateError(
                "workers of a DataLoader make samples ahead, so what the training loop received is not known here; "
                "give batch_size to the dataset, and the number of batches of this `for` that the loop received as "
                "`batches`, or use num_workers=0"
            )
        if batches == 0:
            raise StateError(
                "batches=0 does not say which `for` is meant: the workers of the next one may not have begun; save "
                "after its first batch, or before it with all batches of the `for` that has ended"
            )
        timeline = self._timeline(begun)
        steps = self._steps(timeline, begun.epoch)
        step = steps.start + begun.batches + int(batches)
        assert steps.stop is not None
        if batches < 0 or step > steps.stop:
            most = steps.stop - steps.start - begun.batches
            raise StateError(f"batches={batches}, and the latest `for` has {most} batches of {self.batch_size}")
        return timeline.batch(step)[0]

    def _first_sample(self, start: Start) -> int:
        """Return the first sample of a ``for``, over all ranks and epochs."""
        if self.batch_size is None and start.segments is None:
            used = start.batches * start.batch_size * self.feed.world
            return start.epoch * self.epoch_samples + min(used, self.epoch_samples)
        timeline = self._timeline(start)
        return timeline.batch(self._steps(timeline, start.epoch).start + start.batches)[0]

    def resume_at(self, sample: int) -> None:
        """Begin the next ``for`` at a sample. It yields the rest of its epoch.

        Args:
            sample: Number of samples received, as ``position`` returns it.
        """
        epoch, used = divmod(sample, self.epoch_samples)
        timeline = Timeline.constant(1, self.epoch_samples)  # so that every sample begins a step
        if self.batch_size is not None:
            timeline = timeline.changed(sample, self.batch_size * self.feed.world)
        self._received = None
        self._starts.set_next(Start(epoch, used, 1, [list(each) for each in timeline.segments]))
