"""Writing complete objects out to the disk at leisure, in the background. Knows nothing of what is written.

It matters only when the machine goes down, so it waits a little: a burst of downloads, when readers are waiting for
bytes, does not share the disk with it. What a process leaves undone, the next one that opens the object does.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

_LEISURE_SECONDS = 3.0


class Sealer:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Also in a forked child, which has not its parent's thread; what the parent began, the parent ends."""
        self._changed = threading.Condition()
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()  # when, what
        self._thread: threading.Thread | None = None
        self._closing = False

    def add(self, seal: Callable[[], None]) -> None:
        with self._changed:
            self._waiting.append((time.monotonic() + _LEISURE_SECONDS, seal))
            if self._thread is None:
                self._closing = False
                # A daemon: a process that ends does not wait for it.
                self._thread = threading.Thread(target=self._work, name="penstock-seal", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Do now what is left to do."""
        with self._changed:
            thread, self._closing = self._thread, True
            self._changed.notify_all()
        if thread:
            thread.join()

    def _work(self) -> None:
        while seal := self._next():
            with contextlib.suppress(OSError):  # it is only not noted, then
                seal()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while True:
                if self._waiting and (self._closing or self._waiting[0][0] <= time.monotonic()):
                    return self._waiting.popleft()[1]
                if not self._waiting:
                    self._thread = None  # the next who has something starts another
                    return None
                self._changed.wait(self._waiting[0][0] - time.monotonic())
