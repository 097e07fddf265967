"""Indexing as tasks, which any process on any machine makes. What they make are files of the shelf. Knows no format.

tasks -- engine --> results -- keep --> shelf
"""

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from penstock.manifest.errors import ManifestError
from penstock.readers.errors import ContentError
from penstock.readers.metadatacache import make_folder
from penstock.runtime.atomicwrite import write_atomically
from penstock.runtime.engines.engine import Engine, ThreadEngine, WorkerLost
from penstock.store.local import within


class IndexResult(NamedTuple):
    """What a task has made.

    Attributes:
        files: Content of files of the shelf, by path.
    """

    files: Mapping[str, bytes]

    @classmethod
    def of(cls, folder: Path) -> "IndexResult":
        """Return the files of a folder. Hidden ones, such as locks, are left out."""
        return cls({path.name: path.read_bytes() for path in folder.glob("[!.]*") if path.is_file()})


class IndexTask(NamedTuple):
    """A part of the indexes of a run. It pickles, and can be made wherever the data can be read.

    Attributes:
        work: Pickled function of the argument, which many tasks share.
        argument: Argument of the function.
        parts: Number of parts that it counts for.
    """

    work: bytes
    argument: Any
    parts: int = 1


_latest = threading.local()  # the function of the last task, which may hold a tokenizer


def make(task: IndexTask) -> IndexResult:
    """Make a task, in any process on any machine.

    Args:
        task: Task of ``penstock.index.tasks``.

    Returns:
        What ``penstock.index.finish`` keeps. It pickles.

    Raises:
        ContentError: If a file is damaged.

    Examples:
        >>> from penstock import index
        >>> def sizes_of_results(config):
        ...     return [sum(map(len, index.make(task).files.values())) for task in index.tasks(config)]
    """
    if getattr(_latest, "pickled", None) != task.work:
        _latest.work = pickle.loads(task.work)
        _latest.pickled = task.work
    made: IndexResult = _latest.work(task.argument)
    return made


def keep(shelf: Path, result: IndexResult) -> None:
    """Write what a task has made into a shelf. Takes no lock: several machines may do so at once."""
    for name, content in result.files.items():
        path = within(shelf, name)
        make_folder(path.parent)
        write_atomically(path, [content], shared=True)


class HasParts(Protocol):
    """A task that counts for a number of parts."""

    @property
    def parts(self) -> int: ...


T = TypeVar("T", bound=HasParts)
R = TypeVar("R")

Progress = Callable[[int, int | None], None]
"""Called with the number of parts that are done, and of all; None while that is not known."""


class _CountedTasks(Generic[T]):
    """Tasks, counted as they are taken."""

    def __init__(self, tasks: Iterable[T]) -> None:
        self._tasks = tasks
        self._found = 0
        self.total: int | None = None

    def __iter__(self) -> Iterator[T]:
        for task in self._tasks:
            self._found += task.parts
            yield task
        self.total = self._found


def make_all(
    engine: Engine, work: Callable[[T], R], tasks: Iterable[T], keep: Callable[[T, R], None], show: Progress
) -> None:
    """Make tasks, and keep each result as it comes.

    Args:
        engine: Engine that makes them.
        work: Function of a task.
        tasks: Tasks.
        keep: Called with each task and its result.
        show: See ``Progress``.

    Raises:
        ManifestError: If a file is damaged.
    """
    counted = _CountedTasks(tasks)
    todo = list(counted) if isinstance(engine, ThreadEngine) else counted
    done = 0
    show(done, counted.total)
    try:
        with closing(engine.map(work, todo)) as outcomes:
            for outcome in outcomes:
                keep(outcome.task, outcome.get())
                done += outcome.task.parts
                show(done, counted.total)
    except ContentError as error:
        raise ManifestError(str(error)) from None
    except WorkerLost as error:
        raise ManifestError(
            f"a process that indexed was killed: {error}; what is finished is kept: run it again, with fewer --workers"
        ) from None
