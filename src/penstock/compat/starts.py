"""Where a ``for`` over a stream begins, agreed upon by all worker processes of a ``DataLoader``. Knows nothing of data.

A ``DataLoader`` does not say when a ``for`` begins: its workers only start to iterate. So they agree through a small
file: the first worker of a ``for`` takes the next start, and the others of that ``for`` get the same one.
"""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from penstock.runtime.shared import SharedFile

_KEPT = 8  # starts that were taken: the workers of one ``for`` begin within moments of each other


class Start(NamedTuple):
    """Where a ``for`` begins.

    Attributes:
        epoch: the epoch.
        batches: batches of the epoch that were used before.
        batch_size: samples of each of those; 0 if there were none.
        segments: of the timeline, see ``Timeline``; None for batches of one size from the first step on.
    """

    epoch: int = 0
    batches: int = 0
    batch_size: int = 0
    segments: list[list[int]] | None = None

    def next_epoch(self) -> "Start":
        return Start(self.epoch + 1, 0, 0, self.segments)


class Worker(NamedTuple):
    """A worker of a ``DataLoader``.

    Attributes:
        number: of the worker.
        workers: how many there are.
        team: a number that the workers of one ``DataLoader`` have in common.
    """

    number: int
    workers: int
    team: int


def this_worker() -> Worker | None:
    """Return the worker that this process is, or None."""
    from torch.utils.data import get_worker_info

    info = get_worker_info()
    return None if info is None else Worker(info.id, info.num_workers, info.seed - info.id)


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
        """Let the next ``for`` begin elsewhere, also in workers that are running."""
        with self._open() as shared:
            shared["next"] = start
            shared["in_workers"] = False

    def in_workers(self) -> Start | None:
        """Return where the latest ``for`` began, if workers take part in it."""
        with self._open() as shared:
            return Start(*shared["taken"][-1]["start"]) if shared["in_workers"] else None

    def begin(self, worker: Worker | None) -> Start:
        """Return where a ``for`` begins that this process takes part in.

        Args:
            worker: this process, if it is a worker. All workers of one ``for`` get the same answer.
        """
        with self._open() as shared:
            if worker is not None:
                latest = next((each for each in reversed(shared["taken"]) if each["team"] == worker.team), None)
                if latest is not None and worker.number not in latest["workers"]:
                    latest["workers"].append(worker.number)
                    return Start(*latest["start"])
            start = Start(*shared["next"])
            shared["next"] = start.next_epoch()
            shared["in_workers"] = worker is not None
            if worker is not None:
                own = {"team": worker.team, "workers": [worker.number], "start": start}
                shared["taken"] = [*shared["taken"], own][-_KEPT:]
            return start

    @contextmanager
    def _open(self) -> Iterator[dict[str, Any]]:
        with open(self._file.path, "r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed
            shared = json.load(file)
            yield shared
            file.seek(0)
            file.truncate()
            json.dump(shared, file)
