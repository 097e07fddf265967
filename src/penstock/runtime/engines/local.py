"""The local engine: processes of this machine, with one connection per task that is made at a time.

A process that dies closes its connections: its tasks go to other processes, and another process takes its place.
"""

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Container, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, Generic, NamedTuple

from penstock.runtime.engines.engine import ATTEMPTS, Outcome, R, T, WorkerLost, portable

_PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>


class _Attempt(NamedTuple, Generic[T]):
    task: T
    number: int


class LocalEngine:
    """Processes of this machine; see ``Engine``.

    Args:
        workers: Number of processes.
        threads: Number of tasks that a process makes at a time, where tasks mostly wait for a network.
    """

    def __init__(self, workers: int, threads: int = 1) -> None:
        self._workers = workers
        self._threads = threads

    def map(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[Outcome[T, R], None, None]:
        todo = _Queue(tasks)
        running: dict[Connection, _Attempt[T]] = {}
        crew = _Crew(pickle.dumps(work), self._workers, self._threads)
        try:
            while not todo.is_empty() or running:
                while not todo.is_empty() and (free := crew.free(running)) is not None:
                    running[free] = todo.take()
                    with suppress(OSError):  # its process is dead, which the next receive shows
                        free.send(running[free].task)
                for ready in wait(list(running)):
                    assert isinstance(ready, Connection)
                    attempt = running.pop(ready)
                    try:
                        done, value = ready.recv()
                    except (EOFError, OSError):
                        crew.dismiss_dead(ready)
                        if attempt.number < ATTEMPTS:
                            todo.put_back(_Attempt(attempt.task, attempt.number + 1))
                            continue
                        done, value = False, WorkerLost(f"{ATTEMPTS} processes died of it; is there enough memory?")
                    yield Outcome(attempt.task, value) if done else Outcome(attempt.task, error=value)
        except BaseException:
            crew.kill()
            raise
        finally:
            crew.dismiss()


class _Queue(Generic[T]):
    """Tasks that no worker has: new ones, and those of dead workers, which come first."""

    def __init__(self, tasks: Iterable[T]) -> None:
        self._new: Iterator[T] = iter(tasks)
        self._waiting: deque[_Attempt[T]] = deque()

    def is_empty(self) -> bool:
        if not self._waiting:
            self._waiting.extend(_Attempt(task, 1) for task in islice(self._new, 1))
        return not self._waiting

    def take(self) -> _Attempt[T]:
        return self._waiting.popleft()

    def put_back(self, attempt: _Attempt[T]) -> None:
        self._waiting.appendleft(attempt)


class _Crew:
    """The processes of one ``map``."""

    def __init__(self, pickled: bytes, workers: int, threads: int) -> None:
        self._pickled = pickled
        self._workers = workers
        self._threads = threads
        self._members: dict[BaseProcess, list[Connection]] = {}

    def free(self, busy: Container[Connection]) -> Connection | None:
        """Return a connection that is not busy; starts processes as they are needed."""
        if len(self._members) < self._workers:
            return self._hire()[0]
        every = (each for connections in self._members.values() for each in connections)
        return next((each for each in every if each not in busy), None)

    def _hire(self) -> list[Connection]:
        context = multiprocessing.get_context("spawn")
        pairs = [context.Pipe() for _ in range(self._threads)]
        theirs = [pair[1] for pair in pairs]
        process = context.Process(target=_serve, args=(os.getpid(), self._pickled, theirs), daemon=True)
        with _without_main():
            process.start()
        for connection in theirs:
            connection.close()  # so that the other end shows when the process dies
        self._members[process] = [pair[0] for pair in pairs]
        return self._members[process]

    def dismiss_dead(self, lost: Connection) -> None:
        """Forget the process of a connection. Its other connections show the loss, too."""
        for process, connections in list(self._members.items()):
            if lost in connections:
                process.kill()
                process.join()
                del self._members[process]

    def kill(self) -> None:
        for process in self._members:
            process.kill()  # by the kernel: a thread in there may have to wait long for the GIL

    def dismiss(self) -> None:
        """End all processes, each after its current task."""
        for connections in self._members.values():
            for connection in connections:
                connection.close()
        for process in self._members:
            process.join()


@contextmanager
def _without_main() -> Iterator[None]:
    """Keep processes that are started in the block from running the script of this one again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _end_with_owner(owner: int) -> None:
    """Let this process end with the thread that started it, and leave Ctrl-C to its owner.

    Args:
        owner: Process that started this one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner handles Ctrl-C
    # The kernel ends this process with the thread that started it: a task may hold the GIL for long.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != owner:  # it was dead before
        os._exit(1)


def _serve(owner: int, pickled: bytes, connections: list[Connection]) -> None:
    _end_with_owner(owner)
    # There is a process per core: threads of the tokenizer would only get in each other's way.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ.setdefault("RAYON_NUM_THREADS", "1")
    try:
        work = pickle.loads(pickled)
    except Exception as error:
        work = _Failing(error)
    others = [threading.Thread(target=_answer, args=(each, work), daemon=True) for each in connections[1:]]
    for thread in others:
        thread.start()
    _answer(connections[0], work)
    for thread in others:
        thread.join()


class _Failing:
    """Stands for a function that could not be unpickled."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self, task: object) -> None:  # noqa: ARG002
        raise self._error


def _answer(connection: Connection, work: Callable[[Any], Any]) -> None:
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):  # the owner needs no more
            return
        try:
            answer = (True, work(task))
        except Exception as error:
            answer = (False, portable(error))
        with suppress(OSError):  # the owner is gone, which the next receive shows
            connection.send(answer)
