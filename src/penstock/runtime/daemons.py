"""Threads that neither an interrupt nor the exit of the process waits for: a store may never answer."""

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_Jobs = SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]  # None ends a thread


class DaemonPool(Executor):
    """A ``ThreadPoolExecutor`` whose threads the interpreter does not join at exit.

    As a context manager it waits for its jobs; after an error, only for those that have started; after
    ``KeyboardInterrupt`` or ``SystemExit``, for none.

    Args:
        size: Maximum number of threads.
        name: Name of the threads.
    """

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._jobs: _Jobs = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()
        weakref.finalize(self, _end, self._jobs, self._threads)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self._jobs.put((future, partial(fn, *args, **kwargs)))
        with self._starting:
            if len(self._threads) < self._size:
                self._threads.append(threading.Thread(target=_work, args=(self._jobs,), name=self._name, daemon=True))
                self._threads[-1].start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with suppress(Empty):
            while cancel_futures and (job := self._jobs.get_nowait()):
                job[0].cancel()
        _end(self._jobs, self._threads)
        for thread in self._threads if wait else ():
            thread.join()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)
        self.shutdown(wait=not interrupted, cancel_futures=kind is not None)


def _end(jobs: _Jobs, threads: list[threading.Thread]) -> None:
    for _ in threads:
        jobs.put(None)


def _work(jobs: _Jobs) -> None:
    while (job := jobs.get()) is not None:
        future, call = job
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
        del job, future, call  # keeps no result alive while it waits


def interruptibly(call: Callable[[], T]) -> T:
    """Call a function that blocks outside of Python, so that Ctrl-C still interrupts the main thread.

    In the main thread another thread makes the call. After an interrupt nobody waits for it.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    with DaemonPool(1, "penstock-request") as other:
        return other.submit(call).result()
