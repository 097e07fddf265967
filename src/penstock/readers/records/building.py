"""An index made by several processes, segment by segment. What is made is on the shelf: it may be stopped any time."""

import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import NamedTuple

from penstock.manifest.errors import ManifestError
from penstock.readers.errors import ContentError
from penstock.readers.records.sourceindex import SourceIndex


class _Task(NamedTuple):
    """A segment of a file; None for all of its segments, one after another."""

    file: int
    segment: int | None


Progress = Callable[[int, int], None]
"""Called with the number of pieces that are done, and of all."""


def build(index: SourceIndex, workers: int, progress: Progress) -> None:
    """Make the whole index of a source.

    Args:
        index: of the source.
        workers: processes to use; 0 uses this one. What can't be pickled is indexed in this process, too.
        progress: called now and then.

    Raises:
        ManifestError: If a file is damaged, or the source has no items.
    """
    tasks = list(_tasks(index))
    done = 0
    progress(done, len(tasks))
    for _ in _run(index, tasks, workers):
        done += 1
        progress(done, len(tasks))
    index.finish()


def _tasks(index: SourceIndex) -> Iterator[_Task]:
    for number in range(len(index.paths)):
        try:
            file = index.file_index(number)
            known = file.summary()
            if known.complete:
                continue
            count = file.file.count()
        except (ContentError, FileNotFoundError) as error:
            raise ManifestError(f"{index.paths[number]}: {error}") from None
        if count is None:
            yield _Task(number, None)
        else:
            yield from (_Task(number, segment) for segment in range(len(known.items), count))


def _run(index: SourceIndex, tasks: list[_Task], workers: int) -> Iterator[None]:
    try:
        pickled = pickle.dumps(index) if workers > 1 and len(tasks) > 1 else b""
    except (pickle.PicklingError, AttributeError, TypeError):
        pickled = b""
    if not pickled:
        for task in tasks:
            _do(index, task)
            yield
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(tasks)), context, initializer=_start, initargs=(pickled,))
    try:
        waiting: set[Future[None]] = {pool.submit(_do_here, task) for task in tasks}
        while waiting:
            ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ready:
                future.result()
                yield
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_here: SourceIndex | None = None


def _start(pickled: bytes) -> None:
    global _here
    _here = pickle.loads(pickled)


def _do_here(task: _Task) -> None:
    assert _here is not None
    _do(_here, task)


def _do(index: SourceIndex, task: _Task) -> None:
    file = index.file_index(task.file)
    if task.segment is not None:
        file.make(task.segment, 0)
        return
    while not file.summary().complete:
        file.extend()
