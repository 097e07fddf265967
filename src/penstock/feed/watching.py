"""Logs each step that takes more than a minute, with what it waits for. Knows no batch and no store."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.runtime.forking import reset_in_children
from penstock.runtime.waiting import waits

log = logging.getLogger(__name__)

LONG_SECONDS = 60.0  # until the first line about a step, and between two lines
_LOOK_AGAIN_SECONDS = 1.0
_NAMED_WAITS = 3  # in a line


@dataclass(eq=False, slots=True)
class _Making:
    step: int
    since: float
    next_line: float


class Watch:
    """The steps that are being made in this process. One thread watches them, from the first step on."""

    def __init__(self) -> None:
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Start without a thread, also in a forked child."""
        self._lock = threading.Lock()
        self._making: dict[object, _Making] = {}
        self._watched = False

    @contextmanager
    def making(self, step: int) -> Iterator[None]:
        """Within the block, a step is made."""
        now = time.monotonic()
        key = object()
        with self._lock:
            self._making[key] = _Making(step, now, now + LONG_SECONDS)
            if not self._watched:
                threading.Thread(target=self._work, name="penstock-watch", daemon=True).start()
                self._watched = True
        try:
            yield
        finally:
            self._making.pop(key, None)

    def _work(self) -> None:
        while True:
            time.sleep(_LOOK_AGAIN_SECONDS)
            for each in list(self._making.values()):
                self._look(each)

    def _look(self, each: _Making) -> None:
        now = time.monotonic()
        if now < each.next_line:
            return
        each.next_line = now + LONG_SECONDS
        named = ", ".join(f"{what} ({since:.0f} s)" for what, since in waits()[:_NAMED_WAITS])
        seconds = now - each.since
        log.warning("step %d has taken %.0f s so far; it waits for %s", each.step, seconds, named or "no store")


watch = Watch()
