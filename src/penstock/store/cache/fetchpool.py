"""Threads that share a caller's list of jobs with it. Knows nothing of the jobs."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

from penstock.runtime.daemons import DaemonPool

Job = TypeVar("Job")


class FetchPool:
    """Runs up to ``size`` jobs of a caller at once. The caller works too, so a short list never waits for a thread."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.reset()

    def reset(self) -> None:
        """Start without threads, also in a forked child, which has none of its parent's."""
        self._lock = threading.Lock()
        self._pool: DaemonPool | None = None

    def run(self, work: Callable[[Job], bool], jobs: Sequence[Job]) -> bool:
        """Run all jobs. Started jobs have ended when this returns; after an error no more are started.

        Only an interrupt does not wait for them: a request may never be answered.

        Returns:
            Whether ``work`` returned True for any job.
        """
        todo = deque(jobs)

        def drain() -> bool:
            said = False
            while job := _next(todo):
                try:
                    said |= work(job[0])
                except BaseException:
                    todo.clear()
                    raise
            return said

        helpers = min(len(jobs), self.size) - 1
        if helpers < 1:
            return drain()
        with self._lock:
            self._pool = self._pool or DaemonPool(self.size - 1, "penstock-fetch")
            futures = [self._pool.submit(drain) for _ in range(helpers)]
        try:
            said = drain()
        except Exception:
            _wait_for_begun(futures)
            raise
        answers = [future.result() for future in _wait_for_begun(futures)]  # of all futures: each may raise
        return said or any(answers)

    def close(self) -> None:
        with self._lock:
            pool = self._pool
            self._pool = None
        if pool:
            pool.shutdown(wait=False)  # callers wait for their own jobs


def _wait_for_begun(futures: list[Future[bool]]) -> list[Future[bool]]:
    begun = [future for future in futures if not future.cancel()]
    wait(begun)
    return begun


def _next(todo: deque[Job]) -> tuple[Job] | None:
    try:
        return (todo.popleft(),)
    except IndexError:
        return None
