"""Makes an index with several processes, segment by segment. Finished segments are kept: it may be stopped any time."""

import os
import pickle
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from typing import NamedTuple, TypeVar

from penstock.manifest.errors import ManifestError
from penstock.readers.errors import ContentError
from penstock.readers.records.hashing import hash_segment, unhashed
from penstock.readers.records.sourceindex import SourceIndex
from penstock.runtime.processpool import process_pool

T = TypeVar("T")

_PARALLEL_BYTES = 32 << 20  # of files, below which starting processes takes longer than it saves


class _Task(NamedTuple):
    """A segment of a file, and the mark by which it is found."""

    file: int
    segment: int
    mark: int


Progress = Callable[[int, int | None], None]
"""Called with the number of segments that are done, and of all; None while that is not known."""


def build(index: SourceIndex, workers: int, progress: Progress, *, sha256: bool = False) -> None:
    """Make the whole index of a source.

    Args:
        index: Index of the source.
        workers: Number of processes; 0 for this one. What is small, or can't be pickled, is indexed in this process.
        progress: Called now and then.
        sha256: Whether to also hash all records.

    Raises:
        ManifestError: If a file is damaged, or the source has no items.
    """
    _run(index, _tasks(index), _make, workers, progress)
    index.finish()
    if sha256:
        _run(index, unhashed(index), hash_segment, workers, progress)


def _run(
    index: SourceIndex, tasks: Iterator[T], make: Callable[[SourceIndex, T], None], workers: int, progress: Progress
) -> None:
    """Make what each task names, in processes if that is worth it."""
    pickled = _pickled(index) if workers > 1 and index.content_bytes() > _PARALLEL_BYTES else b""
    run = _in_processes(pickled, tasks, make, workers) if pickled else _here(index, list(tasks), make)
    done = 0
    total: int | None = None
    progress(done, total)
    try:
        with closing(run):  # an exception of ``progress`` ends it, too
            for number, total in run:
                done += number
                progress(done, total)
    except ContentError as error:
        raise ManifestError(str(error)) from None
    except BrokenProcessPool:
        raise ManifestError(
            "a process that indexed was killed, perhaps because memory was short; what it had finished is kept: run it "
            "again, with fewer --workers"
        ) from None


def _pickled(index: SourceIndex) -> bytes:
    """Return a pickled index; empty if it can't be pickled, or other processes could not import what it names."""
    try:
        pickled = pickle.dumps(index)
    except (pickle.PicklingError, AttributeError, TypeError):
        return b""
    return b"" if b"__main__" in pickled else pickled


def _tasks(index: SourceIndex) -> Iterator[_Task]:
    """Yield all segments to make. Those that can only be found in order are found here."""
    for number in range(len(index.known)):
        index_of_file = index.file_index(number)
        known = index_of_file.summary()
        marks = (0, *known.marks)
        yield from (_Task(number, segment, marks[segment] or 0) for segment in index_of_file.lacks())
        if known.complete:
            continue
        file = index_of_file.file
        count = file.count()
        segment = len(known.items)
        if count is not None:
            yield from (_Task(number, each, 0) for each in range(segment, count))
            continue
        mark = marks[-1]
        while mark is not None:
            yield _Task(number, segment, mark)
            mark = file.segment(segment, mark).mark
            segment += 1


def _here(
    index: SourceIndex, tasks: list[T], make: Callable[[SourceIndex, T], None]
) -> Generator[tuple[int, int | None], None, None]:
    for task in tasks:
        make(index, task)
        yield 1, len(tasks)


def _in_processes(
    pickled: bytes, tasks: Iterator[T], make: Callable[[SourceIndex, T], None], workers: int
) -> Generator[tuple[int, int | None], None, None]:
    waiting: set[Future[None]] = set()
    found = 0
    with process_pool(workers, _start, (pickled,)) as pool:
        for task in tasks:
            waiting.add(pool.submit(_make_there, make, task))
            found += 1
            ready = {future for future in waiting if future.done()}
            waiting -= ready
            yield _count(ready), None
        while waiting:
            ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield _count(ready), found


def _count(ready: set[Future[None]]) -> int:
    """Return the number of finished tasks. If one failed, raise its exception."""
    for future in ready:
        future.result()
    return len(ready)


_index: SourceIndex | None = None


def _start(pickled: bytes) -> None:
    global _index
    # There is a process per core: threads of the tokenizer would only get in each other's way.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ.setdefault("RAYON_NUM_THREADS", "1")
    _index = pickle.loads(pickled)


def _make_there(make: Callable[[SourceIndex, T], None], task: T) -> None:
    assert _index is not None
    make(_index, task)


def _make(index: SourceIndex, task: _Task) -> None:
    index.file_index(task.file).make(task.segment, task.mark)
