"""Counts the batches that this process received, for metrics. Knows nothing of where they are shown."""

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from penstock.feed.batches import Batch, flat_batches, is_last_unit

WAIT_BOUNDS_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Upper bounds of the histogram of waits."""


class Totals(NamedTuple):
    """What a process received so far.

    Attributes:
        next_step: Step after the last one that was received whole; 0 before the first one.
        steps: Number of steps. In batches by length, a step is received when its last unit is.
        samples: Number of samples by source. A pack is one.
        bad: Number of bad samples by outcome.
        waited: Seconds that the trainer waited for all batches.
        waits: Number of steps by wait: one number per bound, and one for longer waits.
        time: Time of the last batch, in seconds since 1970.
    """

    next_step: int
    steps: int
    samples: dict[str, int]
    bad: dict[str, int]
    waited: float
    waits: tuple[int, ...]
    time: float


class Meter:
    """Counts batches. Thread-safe: another thread may read the totals."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next_step = 0
        self._steps = 0
        self._samples: Counter[str] = Counter()
        self._bad: Counter[str] = Counter()
        self._waited = 0.0
        self._step_waited = 0.0  # for the units so far of a step
        self._waits = [0] * (len(WAIT_BOUNDS_SECONDS) + 1)
        self._time = 0.0
        self._listeners: list[tuple[int, Callable[[Totals], None]]] = []

    def listen(self, every: int, listener: Callable[[Totals], None]) -> None:
        """Call a function with the totals, after every ``every`` steps."""
        self._listeners.append((every, listener))

    def record(self, batch: Batch, stalled: float = 0.0) -> None:
        """Count a batch that the trainer waited for, in seconds."""
        with self._lock:
            if not batch.get("unit"):
                self._step_waited = 0.0
            self._step_waited += stalled
            for each in flat_batches(batch):
                self._samples.update(each["sources"])
                self._bad.update([bad.outcome for bad in each["bad"]])
            self._waited += stalled
            self._time = time.time()
            if not is_last_unit(batch):
                return
            self._steps += 1
            self._next_step = int(batch["step"]) + 1
            self._waits[bisect_left(WAIT_BOUNDS_SECONDS, self._step_waited)] += 1
        for every, listener in self._listeners:
            if self._steps % every == 0:
                listener(self.totals())

    def totals(self) -> Totals:
        """Return what was counted so far."""
        with self._lock:
            samples = {name: count for name, count in self._samples.items() if name}  # empty for padding
            waits = tuple(self._waits)
            return Totals(self._next_step, self._steps, samples, dict(self._bad), self._waited, waits, self._time)
