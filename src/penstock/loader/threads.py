"""Batches made ahead by threads of this process, returned in order."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from typing import Any

from penstock.feed.steps import Steps
from penstock.feed.walk import OpenWalk
from penstock.runtime.forking import reset_in_children

_Answer = SimpleQueue[tuple[bool, Any]]  # one element: (True, a batch) or (False, an exception)
_Asked = SimpleQueue[tuple[int, _Answer] | None]  # None ends a thread

_END_SECONDS = 2.0  # that all threads together have to end; one that waits for a silent store is left alone


class Threads:
    """The batches of a walk in order, made by threads.

    It must be closed: otherwise its threads wait for ever. They are daemons and do not keep a process from ending, but
    a process that ends while they make batches may crash.

    Args:
        open_walk: opens the walk.
        steps: the steps to make.
        threads: the number of threads; 0 makes each batch when it is requested.
        ahead: batches that are made ahead of the caller, by all threads together.
    """

    def __init__(self, open_walk: OpenWalk, steps: Steps, threads: int, ahead: int) -> None:
        self._walk = open_walk(steps)
        self._steps = iter(steps)
        self._ahead = ahead
        self._asked: _Asked = SimpleQueue()
        self._answers: deque[_Answer] = deque()
        self.reset_after_fork()
        reset_in_children(self)
        # Daemons: other threads are joined at exit before the hooks that close this run.
        self._threads = [
            Thread(target=_work, args=(self._walk.made, self._asked), name=f"penstock_{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def reset_after_fork(self) -> None:
        self._asking = Lock()

    def __iter__(self) -> Iterator[Any]:
        if not self._threads:
            yield from map(self._walk.made, self._steps)
            return
        while True:
            with self._asking:
                while len(self._answers) < self._ahead and (step := next(self._steps, None)) is not None:
                    answer: _Answer = SimpleQueue()
                    self._answers.append(answer)
                    self._asked.put((step, answer))
            if not self._answers:
                return
            made, result = self._answers.popleft().get()
            try:
                if not made:
                    raise result
                yield result
            finally:
                del result  # keeps no batch alive while the caller waits for the next

    def close(self) -> None:
        """End the threads after the batches that they are making, and wait two seconds for that.

        Callers that wait for later batches get an error.
        """
        with self._asking, suppress(Empty):
            self._steps = iter(())
            while job := self._asked.get_nowait():
                job[1].put((False, RuntimeError("the loader was closed while waiting for a batch")))
        for _ in self._threads:
            self._asked.put(None)
        deadline = time.monotonic() + _END_SECONDS
        for thread in self._threads:
            if thread is not current_thread():  # a worker thread may itself collect a loader that was dropped
                thread.join(max(0.0, deadline - time.monotonic()))
        self._walk.close()


def _work(make: Callable[[int], Any], asked: _Asked) -> None:
    while (job := asked.get()) is not None:
        step, answer = job
        try:
            answer.put((True, make(step)))
        except BaseException as error:
            answer.put((False, error))
