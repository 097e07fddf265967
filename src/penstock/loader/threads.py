"""Batches made ahead by threads of this process, handed out in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from typing import Any

from penstock.runtime.forking import reset_in_children

_Answer = SimpleQueue[tuple[bool, Any]]  # (True, a batch) or (False, why there is none), once
_Asked = SimpleQueue[tuple[int, _Answer] | None]  # None: no more


class Threads:
    """``make`` of each step in order, computed ``ahead`` of the caller. No threads: computed when asked for.

    Who drops this without closing it leaves its threads waiting for ever; they do not keep a process from ending, but
    one that ends while they are at work may crash.
    """

    def __init__(self, make: Callable[[int], Any], steps: Iterable[int], threads: int, ahead: int) -> None:
        self._make, self._steps, self._ahead = make, iter(steps), ahead
        self._asked: _Asked = SimpleQueue()
        self._answers: deque[_Answer] = deque()
        self.reset_after_fork()
        reset_in_children(self)
        # Not joined before the hooks that close this are run, as threads that are no daemons would be.
        self._threads = [
            Thread(target=_work, args=(make, self._asked), name=f"penstock_{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def reset_after_fork(self) -> None:
        self._asking = Lock()

    def __iter__(self) -> Iterator[Any]:
        if not self._threads:
            yield from map(self._make, self._steps)
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
                del result  # or it would be held while the next one is waited for

    def close(self) -> None:
        """End the threads, after the batches that they are making. Who waits for others is told."""
        with self._asking, suppress(Empty):
            self._steps = iter(())
            while job := self._asked.get_nowait():
                job[1].put((False, RuntimeError("the loader was closed while a batch was waited for")))
        for _ in self._threads:
            self._asked.put(None)
        for thread in self._threads:
            if thread is not current_thread():  # where a batch's end was the last of a forgotten loader
                thread.join()


def _work(make: Callable[[int], Any], asked: _Asked) -> None:
    while (job := asked.get()) is not None:
        step, answer = job
        try:
            answer.put((True, make(step)))
        except BaseException as error:
            answer.put((False, error))
