"""Engines: one file each, which calls a function with many tasks, on one machine or many. Know nothing of the tasks."""

import pickle
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Generic, NamedTuple, Protocol, TypeVar

from penstock.runtime.daemons import DaemonPool

T = TypeVar("T")
R = TypeVar("R")

ATTEMPTS = 3  # workers that a task may lose


class WorkerLost(RuntimeError):
    """A task lost its worker several times."""


class Outcome(NamedTuple, Generic[T, R]):
    """The end of a task.

    Attributes:
        task: Task.
        result: What the function returned; None after an error.
        error: What the function raised, or ``WorkerLost``.
    """

    task: T
    result: R | None = None
    error: Exception | None = None

    def get(self) -> R:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # a function may return None


class Engine(Protocol):
    """Calls a function with many tasks at the same time.

    Examples:
        >>> from penstock.runtime.engines.engine import ThreadEngine
        >>> sorted(outcome.get() for outcome in ThreadEngine(2).map(len, ["a", "bc"]))
        [1, 2]
    """

    def map(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[Outcome[T, R], None, None]:
        """Yield the outcome of each task as it ends, in any order. Closing the generator stops all work.

        A task whose worker dies is made again, by another worker.

        Args:
            work: Function of a task. It pickles, and its result depends on the task alone.
            tasks: Tasks, which pickle. They are taken when a worker is free.
        """
        ...


class ThreadEngine:
    """Threads of this process, for small work and for functions that do not pickle.

    Args:
        threads: Number of threads.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def map(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[Outcome[T, R], None, None]:
        running: dict[Future[R], T] = {}
        with DaemonPool(self._threads, "penstock-engine") as pool:
            for task in tasks:
                running[pool.submit(work, task)] = task
                yield from _ended(running, 2 * self._threads)
            yield from _ended(running, 1)


def _ended(running: dict[Future[R], T], limit: int) -> Generator[Outcome[T, R], None, None]:
    """Yield outcomes until fewer than ``limit`` tasks are left."""
    while len(running) >= limit:
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            task = running.pop(future)
            error = future.exception()
            if error is None:
                yield Outcome(task, future.result())
            elif isinstance(error, Exception):
                yield Outcome(task, error=error)
            else:
                raise error


def portable(error: Exception) -> Exception:
    """Return the error, or one with the same message if it does not survive pickling."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


class JobShare(NamedTuple):
    """The share of one of several jobs in all tasks, such as those of a SLURM array.

    Attributes:
        number: Number of the job, from 0 on.
        jobs: Number of jobs.
    """

    number: int
    jobs: int

    @staticmethod
    def parse(text: str) -> "JobShare":
        """Parse ``2/8``, the third of eight jobs.

        Raises:
            ValueError: If it is no such pair, or there is no such job.
        """
        number, slash, jobs = text.partition("/")
        if not (slash and number.isdecimal() and jobs.isdecimal() and int(number) < int(jobs)):
            raise ValueError(f"{text}: write i/n for job i of n, from 0/n on: 0/8, 1/8 … 7/8")
        return JobShare(int(number), int(jobs))

    def of(self, tasks: Sequence[T]) -> Sequence[T]:
        """Return every n-th task."""
        return tasks[self.number :: self.jobs]

    def has(self, number: int) -> bool:
        """Return whether the task with a number is one of these."""
        return number % self.jobs == self.number

    def __str__(self) -> str:
        return f"{self.number}/{self.jobs}"


ALL = JobShare(0, 1)
