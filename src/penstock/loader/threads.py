"""Batches made ahead by threads of this process, returned in order."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread

from penstock.feed.batches import MadeUnits
from penstock.feed.steps import Steps
from penstock.feed.walk import OpenWalk
from penstock.runtime.forking import reset_in_children

_Answer = SimpleQueue[MadeUnits | BaseException]  # one element
_Asked = SimpleQueue[tuple[int, _Answer] | None]  # None ends a thread

_END_SECONDS = 2.0  # for all threads to end; one that waits for a silent store is abandoned


class Threads:
    """The batches of a walk in order, step by step, made by threads.

    Must be closed: otherwise its threads wait for ever. They are daemons, so they do not keep the process alive, but a
    process that ends while they make batches may crash.

    Args:
        open_walk: Function that opens the walk.
        steps: Steps to make.
        threads: Number of threads; with 0, each batch is made on request.
        ahead: Number of batches that all threads together make ahead.
    """

    def __init__(self, open_walk: OpenWalk, steps: Steps, threads: int, ahead: int) -> None:
        self._walk = open_walk(steps)
        self._steps = iter(steps)
        self._ahead = ahead
        self._asked: _Asked = SimpleQueue()
        self._answers: deque[_Answer] = deque()
        self.reset_after_fork()
        reset_in_children(self)
        # Daemons: at exit, other threads are joined before the hooks that close this run.
        self._threads = [
            Thread(target=_work, args=(self._walk.units, self._asked), name=f"penstock_{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def reset_after_fork(self) -> None:
        self._asking = Lock()

    def __iter__(self) -> Iterator[MadeUnits]:
        if not self._threads:
            yield from map(self._walk.units, self._steps)
            return
        while True:
            with self._asking:
                while len(self._answers) < self._ahead and (step := next(self._steps, None)) is not None:
                    answer: _Answer = SimpleQueue()
                    self._answers.append(answer)
                    self._asked.put((step, answer))
            if not self._answers:
                return
            result = self._answers.popleft().get()
            try:
                if isinstance(result, BaseException):
                    raise result
                yield result
            finally:
                del result  # keeps no batch alive while the caller waits for the next

    def close(self) -> None:
        """End the threads after the batches that they are making. Waits at most two seconds.

        Callers that wait for later batches get an error.
        """
        with self._asking, suppress(Empty):
            self._steps = iter(())
            while job := self._asked.get_nowait():
                job[1].put(RuntimeError("the loader was closed while waiting for a batch"))
        for _ in self._threads:
            self._asked.put(None)
        deadline = time.monotonic() + _END_SECONDS
        for thread in self._threads:
            if thread is not current_thread():  # a worker thread may itself collect a loader that was dropped
                thread.join(max(0.0, deadline - time.monotonic()))
        self._walk.close()


def _work(make: Callable[[int], MadeUnits], asked: _Asked) -> None:
    while (job := asked.get()) is not None:
        step, answer = job
        try:
            answer.put(make(step))
        except BaseException as error:
            answer.put(error)
