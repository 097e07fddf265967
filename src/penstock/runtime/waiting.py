"""What this process is waiting for, for messages of slow steps; and a watchdog for blocks that take too long."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.runtime.forking import reset_in_children


class _Waits:
    """Current waits: what for and since when. Adding and removing one takes no lock."""

    def __init__(self) -> None:
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """A forked child has none of the threads that wait."""
        self.under_way: dict[object, tuple[str, float]] = {}


_waits = _Waits()


@contextmanager
def waiting_for(what: str) -> Iterator[None]:
    """Within the block, this thread waits for something."""
    under_way = _waits.under_way
    key = object()
    under_way[key] = (what, time.monotonic())
    try:
        yield
    finally:
        under_way.pop(key, None)


def waits() -> list[tuple[str, float]]:
    """Return what the threads of this process wait for and for how many seconds, longest first."""
    now = time.monotonic()
    found = [(what, now - since) for what, since in list(_waits.under_way.values())]
    return sorted(found, key=lambda wait: -wait[1])


class Overdue:
    """Reports blocks that take longer than some seconds, once each. One thread of the process watches them.

    Args:
        seconds: Time after which a block is reported.
        report: Function called by the watching thread.
    """

    def __init__(self, seconds: float, report: Callable[[], None]) -> None:
        self._seconds = seconds
        self._report = report
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._since: dict[object, float] = {}
        self._watcher: threading.Thread | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Within the block, this thread does what may take too long."""
        key = object()
        self._since[key] = time.monotonic()
        if self._watcher is None:  # a race starts at most one thread too many
            self._watcher = threading.Thread(target=self._watch, name="penstock-overdue", daemon=True)
            self._watcher.start()
        try:
            yield
        finally:
            self._since.pop(key, None)

    def _watch(self) -> None:
        while True:
            time.sleep(self._seconds / 4)
            now = time.monotonic()
            for key, since in list(self._since.items()):
                if now - since > self._seconds and self._since.pop(key, None) is not None:
                    self._report()
