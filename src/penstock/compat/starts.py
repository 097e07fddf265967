"""Where a ``for`` over a stream begins, agreed upon by all worker processes of a ``DataLoader``. Knows nothing of data.

A ``DataLoader`` does not say when a ``for`` begins: its workers only start to iterate. So they agree through a small
file: the first worker of a ``for`` takes the next start, and the others of that ``for`` get the same one.
"""

import fcntl
import json
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from penstock.runtime.shared import SharedFile

_KEPT_STARTS = 8  # the workers of one ``for`` begin within moments of each other


class Start(NamedTuple):
    """Where a ``for`` begins.

    Attributes:
        epoch: Epoch of the ``for``.
        batches: Batches of the epoch that were used before.
        batch_size: Samples of each of those; 0 if there were none.
        segments: Segments of the ``Timeline``; None if all batches have one size.
    """

    epoch: int = 0
    batches: int = 0
    batch_size: int = 0
    segments: list[list[int]] | None = None

    def next_epoch(self) -> "Start":
        return Start(self.epoch + 1, 0, 0, self.segments)


class LoaderWorker(NamedTuple):
    """A worker of a ``DataLoader``.

    Attributes:
        number: Number of the worker.
        workers: Number of workers.
        seed: Seed that the workers of one ``DataLoader`` share. Other loaders have the same one if the user fixed it.
        first: Position of worker 0 among all processes that the trainer has started.
    """

    number: int
    workers: int
    seed: int
    first: int

    def is_colleague(self, seed: int, first: int) -> bool:
        """Return whether this worker belongs to the same ``DataLoader`` iterator as one with this seed and first.

        Workers of two iterators are at least as far apart as each has workers. A process that another thread of the
        trainer started in between may move a worker by less.
        """
        return self.seed == seed and abs(self.first - first) < self.workers


ALONE = LoaderWorker(0, 1, 0, 0)  # a process that is not a worker


def this_worker() -> LoaderWorker | None:
    """Return the worker that this process is, or None."""
    from torch.utils.data import get_worker_info

    info = get_worker_info()
    if info is None:
        return None
    *_, place = multiprocessing.current_process()._identity or (0,)
    return LoaderWorker(info.id, info.num_workers, info.seed - info.id, place - info.id)


class Starts:
    """The starts of all ``for``s over a stream.

    Worker processes share them. A copy that is made otherwise goes on alone, from the same start.
    """

    def __init__(self) -> None:
        self._file = SharedFile(json.dumps({"next": Start(), "taken": [], "in_workers": False}).encode())

    def next(self) -> Start:
        """Return where the next ``for`` will begin."""
        with self._open() as shared:
            return Start(*shared["next"])

    def set_next(self, start: Start) -> None:
        """Begin the next ``for`` elsewhere, also in running workers."""
        with self._open() as shared:
            shared["next"] = start
            shared["in_workers"] = False

    def in_workers(self) -> Start | None:
        """Return where the latest ``for`` began, if workers take part in it."""
        with self._open() as shared:
            return Start(*shared["taken"][-1]["start"]) if shared["in_workers"] else None

    def begin(self, worker: LoaderWorker | None, settle: Callable[[Start], Start]) -> Start:
        """Return where a ``for`` begins that this process takes part in.

        Args:
            worker: This process, if it is a worker. All workers of one ``for`` get the same answer.
            settle: Moves a start that has more batches than an epoch to the epoch that it is in.
        """
        with self._open() as shared:
            if worker is not None:
                same = (each for each in reversed(shared["taken"]) if worker.is_colleague(each["seed"], each["first"]))
                latest = next(same, None)
                if latest is not None and worker.number not in latest["workers"]:
                    latest["workers"].append(worker.number)
                    return Start(*latest["start"])
            start = settle(Start(*shared["next"]))
            shared["next"] = start.next_epoch()
            shared["in_workers"] = worker is not None
            if worker is not None:
                own = {"seed": worker.seed, "first": worker.first, "workers": [worker.number], "start": start}
                shared["taken"] = [*shared["taken"], own][-_KEPT_STARTS:]
            return start

    @contextmanager
    def _open(self) -> Iterator[dict[str, Any]]:
        with open(self._file.path, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed
            before = file.read()
            shared = json.loads(before)
            yield shared
            after = json.dumps(shared).encode()
            file.seek(0)
            file.write(after.ljust(len(before)))  # in one call: a worker may be killed at any time
