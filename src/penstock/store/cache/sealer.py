"""Syncing complete objects to disk, in the background. Knows nothing of what is written.

It matters only for a crash of the machine, so it waits a little: a burst of downloads, while readers wait for bytes,
does not share the disk with it. What a process leaves undone is done by the next one that opens the object.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

_DELAY_SECONDS = 3.0


class Sealer:
    """Calls functions in a background thread, ``_DELAY_SECONDS`` after they were added."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start without a thread, also in a forked child; the parent finishes what it has started."""
        self._changed = threading.Condition()
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()  # when, what
        self._thread: threading.Thread | None = None
        self._closing = False

    def add(self, seal: Callable[[], None]) -> None:
        with self._changed:
            self._waiting.append((time.monotonic() + _DELAY_SECONDS, seal))
            if self._thread is None:
                self._closing = False
                # A daemon thread: the process does not wait for it at exit.
                self._thread = threading.Thread(target=self._work, name="penstock-seal", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Call now what is still waiting, and end the thread."""
        with self._changed:
            thread = self._thread
            self._closing = True
            self._changed.notify_all()
        if thread:
            thread.join()

    def _work(self) -> None:
        while seal := self._next():
            with contextlib.suppress(OSError):  # the object then stays unmarked
                seal()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while True:
                if self._waiting and (self._closing or self._waiting[0][0] <= time.monotonic()):
                    return self._waiting.popleft()[1]
                if not self._waiting:
                    self._thread = None  # the next ``add`` starts another
                    return None
                self._changed.wait(self._waiting[0][0] - time.monotonic())
