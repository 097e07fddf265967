"""Makes the indexes of several sources at once, with several processes. What is finished survives a stop.

    tasks -- engine --> rows of small files, and segments of the others --> shelf

Processes of this machine write segments into the shelf themselves; see ``distanttasks`` for others.
"""

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from penstock.readers.indextasks import Progress, make_all
from penstock.readers.records.filetable import FileFacts
from penstock.readers.records.hashing import hash_segment, unhashed
from penstock.readers.records.indexprogress import IndexProgress, is_first
from penstock.readers.records.smallfiles import NewRows, SmallFiles
from penstock.readers.records.sourceindex import SourceIndex
from penstock.runtime.engines.engine import Engine, ThreadEngine
from penstock.runtime.engines.local import LocalEngine

_PARALLEL_BYTES = 32 << 20  # of files, below which starting processes takes longer than it saves
_BYTES_PER_FILE = 16 << 10  # take as long to index as the overhead of a file
FILES_PER_TASK = 64


class _Task(NamedTuple):
    """A part of the index of a source.

    Attributes:
        source: Number of the source.
        make: Function of the index of the source that makes it.
        parts: Number of parts that it counts for.
    """

    source: int
    make: Callable[[SourceIndex], Mapping[int, FileFacts] | None]
    parts: int = 1


def build(
    indexes: Sequence[SourceIndex],
    workers: int,
    progress: Progress,
    *,
    sha256: bool = False,
) -> None:
    """Make the whole indexes of some sources.

    Args:
        indexes: Indexes of the sources.
        workers: Number of processes; 0 for this one. What is small, or can't be pickled, is indexed in this process.
        progress: See ``indextasks.Progress``.
        sha256: Whether to also hash all records.

    Raises:
        ManifestError: If a file is damaged, or a source has no items.
    """
    with ExitStack() as stack:
        for index in sorted(indexes, key=lambda index: index.known.folder):  # all processes in the same order
            stack.enter_context(index.known.alone())
        for tasks_of in (_small, _segments):
            with ExitStack() as adding:
                rows = [adding.enter_context(SmallFiles(index.known).adding()) for index in indexes]
                _run(indexes, rows, tasks_of, _local(indexes, workers, sum(map(_missing_bytes, indexes))), progress)
        for index in indexes:
            index.finish()
            index.known.write_joined()
    if sha256:
        size = sum(index.content_bytes() for index in indexes)
        _run(indexes, [], _hashes, _local(indexes, workers, size), progress)


def _local(indexes: Sequence[SourceIndex], workers: int, size: int) -> Engine:
    """Return processes of this machine, or this thread for few bytes."""
    in_processes = workers > 1 and size > _PARALLEL_BYTES and _pickles(partial(_make, indexes))
    return LocalEngine(workers) if in_processes else ThreadEngine(1)


Shown = Callable[[int, int | None, str], None]
"""Called like ``Progress``, with a note."""


def build_in_processes(
    indexes: Sequence[SourceIndex],
    workers: int | None = None,
    progress: Shown | None = None,
) -> None:
    """Make the indexes of some sources at once, if so much is missing that processes are worth it.

    Args:
        indexes: Indexes of the sources.
        workers: Number of processes; None for one per core, in the first process of a node.
        progress: Called with the number of parts that are done, of all, and a note; None to show a bar.
    """
    if workers is None:
        workers = len(os.sched_getaffinity(0)) if is_first() else 0
    missing = [index for index in indexes if _missing_bytes(index)]
    if workers < 2 or sum(map(_missing_bytes, missing)) <= _PARALLEL_BYTES:
        return
    if progress is not None:
        build(missing, workers, lambda done, total: progress(done, total, ""))
        return
    name = missing[0].source.name if len(missing) == 1 else f"{len(missing)} sources"
    shown = IndexProgress(name, sum(len(index.known) for index in missing))
    try:
        build(missing, workers, lambda done, _: shown.update(None, done, lambda: 0.0, upto=None))
    finally:
        shown.end()


def _run(
    indexes: Sequence[SourceIndex],
    rows: Sequence[NewRows],
    tasks_of: Callable[[int, SourceIndex], Iterator[_Task]],
    engine: Engine,
    show: Progress,
) -> None:
    """Make what is missing, and keep it."""

    def keep(task: _Task, made: Mapping[int, FileFacts] | None) -> None:
        if made is not None:
            rows[task.source].update(made)
            rows[task.source].keep()

    tasks = (task for number, index in enumerate(indexes) for task in tasks_of(number, index))
    make_all(engine, partial(_make, indexes), tasks, keep, show)


def _missing_bytes(index: SourceIndex) -> int:
    """Return the size of the files that are not indexed, each with what its own overhead is worth in bytes."""
    if index.source.judge.keeps and index.source.must_keep:
        return index.content_bytes()
    sizes = index.known.table.sizes[~index.known.table.is_indexed()]
    return int(sizes.sum()) + len(sizes) * _BYTES_PER_FILE


def _pickles(work: Callable[[_Task], Any]) -> bool:
    """Return whether other processes can unpickle something, and import what it names."""
    try:
        return b"__main__" not in pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False


def _make(indexes: Sequence[SourceIndex], task: _Task) -> Mapping[int, FileFacts] | None:
    return task.make(indexes[task.source])


def _small(number: int, index: SourceIndex) -> Iterator[_Task]:
    """Yield the small files that are not indexed yet."""
    missing = SmallFiles(index.known).missing()
    for first in range(0, len(missing), FILES_PER_TASK):
        files = missing[first : first + FILES_PER_TASK]
        yield _Task(number, partial(_make_files, files=files), len(files))


def _make_files(index: SourceIndex, files: Sequence[int]) -> Mapping[int, FileFacts]:
    small = SmallFiles(index.known)
    return {file: small.make(file) for file in files}


def _segments(number: int, index: SourceIndex) -> Iterator[_Task]:
    """Yield all segments to make of files that are not small."""
    for file, segment, mark in missing_segments(index):
        yield _Task(number, partial(_make_segment, file=file, segment=segment, mark=mark))


def missing_segments(index: SourceIndex) -> Iterator[tuple[int, int, int]]:
    """Yield file, segment and mark of all segments to make. Those that can only be found in order are found here."""
    is_indexed = index.known.table.is_indexed().tolist()
    for file in range(len(index.known)):
        if is_indexed[file] and not (index.source.judge.keeps and index.source.must_keep):
            continue
        index_of_file = index.file_index(file)
        known = index_of_file.summary()
        marks = (0, *known.marks)
        yield from ((file, segment, marks[segment] or 0) for segment in index_of_file.lacks())
        if known.complete:
            continue
        opened = index_of_file.file
        count = opened.count()
        segment = len(known.items)
        if count is not None:
            yield from ((file, each, 0) for each in range(segment, count))
            continue
        mark = marks[-1]
        while mark is not None:
            yield file, segment, mark
            mark = opened.segment(segment, mark).mark
            segment += 1


def _make_segment(index: SourceIndex, file: int, segment: int, mark: int) -> None:
    index.file_index(file).make(segment, mark)


def _hashes(number: int, index: SourceIndex) -> Iterator[_Task]:
    """Yield the segments whose records have no hashes yet."""
    yield from (_Task(number, partial(hash_segment, number=group)) for group in unhashed(index))
