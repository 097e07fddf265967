"""Batches made ahead by threads of this process, handed out in order."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Threads:
    """``make`` of each step in order, computed ``ahead`` of the caller. No threads: computed when asked for."""

    def __init__(self, make: Callable[[int], Any], steps: Iterable[int], threads: int, ahead: int) -> None:
        self._make, self._steps, self._ahead = make, iter(steps), ahead
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="penstock") if threads else None
        self._made: deque[Future[Any]] = deque()

    def __iter__(self) -> Iterator[Any]:
        if self._pool is None:
            yield from map(self._make, self._steps)
            return
        while True:
            while len(self._made) < self._ahead and (step := next(self._steps, None)) is not None:
                self._made.append(self._pool.submit(self._make_unless_over, step))
            if not self._made:
                return
            yield self._made.popleft().result()

    def _make_unless_over(self, step: int) -> Any:
        # A script that just ends joins its threads: what they have yet to begin, nobody will ask for.
        return self._make(step) if threading.main_thread().is_alive() else None

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
