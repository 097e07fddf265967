"""Makes the indexes of several sources at once, with several processes. Finished parts are kept: it may be stopped.

    tasks -- engine --> rows of small files, and segments of the others --> shelf

Processes of this machine write segments into the shelf themselves. On other machines, and as the share of a job, a
segment is made in a folder of its own and its files come back: then nobody needs a lock.
"""

import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from penstock.manifest.errors import ManifestError
from penstock.readers.errors import ContentError
from penstock.readers.metadatacache import make_folder
from penstock.readers.records.filetable import FileFacts
from penstock.readers.records.hashing import hash_segment, unhashed
from penstock.readers.records.indexprogress import IndexProgress, is_first
from penstock.readers.records.knownfiles import KnownFiles
from penstock.readers.records.smallfiles import NewRows, SmallFiles
from penstock.readers.records.sourceindex import SourceIndex
from penstock.runtime.atomicwrite import write_atomically
from penstock.runtime.engines.engine import ALL, Engine, JobShare, ThreadEngine, WorkerLost
from penstock.runtime.engines.local import LocalEngine

_PARALLEL_BYTES = 32 << 20  # of files, below which starting processes takes longer than it saves
_BYTES_PER_FILE = 16 << 10  # that take as long as what is done once per file
_FILES_PER_TASK = 64


class _Task(NamedTuple):
    """A part of the index of a source.

    Attributes:
        source: Number of the source.
        make: What makes it.
        arguments: Arguments of ``make``, beside the index of the source.
        parts: Number of parts that it counts for.
    """

    source: int
    make: "Callable[..., _Made | None]"
    arguments: tuple[Any, ...]
    parts: int = 1


class _Made(NamedTuple):
    """What a task has made and somebody else has to keep.

    Attributes:
        rows: Rows of the table of files, by the number of the file.
        files: Content of files of the shelf, by name.
    """

    rows: Mapping[int, FileFacts] = {}
    files: Mapping[str, bytes] = {}


Progress = Callable[[int, int | None], None]
"""Called with the number of parts that are done, and of all; None while that is not known."""


def build(
    indexes: Sequence[SourceIndex],
    workers: int,
    progress: Progress,
    *,
    sha256: bool = False,
    engine: Engine | None = None,
) -> None:
    """Make the whole indexes of some sources.

    Args:
        indexes: Indexes of the sources.
        workers: Number of processes; 0 for this one. What is small, or can't be pickled, is indexed in this process.
        progress: Called now and then.
        sha256: Whether to also hash all records.
        engine: Engine of other machines, in place of processes of this one; None for these. Hashes are made here.

    Raises:
        ManifestError: If a file is damaged, or a source has no items.
    """
    with ExitStack() as stack:
        for index in sorted(indexes, key=lambda index: index.known.folder):  # all processes in the same order
            stack.enter_context(index.known.alone())
        for tasks_of in (_small, _segments if engine is None else _distant_segments):
            with ExitStack() as adding:
                rows = [adding.enter_context(SmallFiles(index.known).adding()) for index in indexes]
                _run(indexes, rows, tasks_of, _chosen(indexes, workers, engine), progress)
        for index in indexes:
            index.finish()
    if sha256:
        size = sum(index.content_bytes() for index in indexes)
        _run(indexes, [], _hashes, _local(indexes, workers, size), progress)


def build_share(
    indexes: Sequence[SourceIndex], workers: int, progress: Progress, share: JobShare, engine: Engine | None = None
) -> None:
    """Make the share of a job in the indexes of some sources. ``build`` then finds what all jobs have made.

    Args:
        indexes: Indexes of the sources.
        workers: Number of processes; 0 for this one.
        progress: Called now and then.
        share: Share of the job, by which no two jobs make the same.
        engine: See ``build``.

    Raises:
        ManifestError: If a file is damaged.
    """
    for tasks_of in (_small, _distant_segments):
        rows = [NewRows(index.known) for index in indexes]
        try:
            _run(indexes, rows, partial(tasks_of, share=share), _chosen(indexes, workers, engine), progress)
        finally:
            for index, new in zip(indexes, rows, strict=True):
                if new:
                    index.known.write_part(new.values())


def _chosen(indexes: Sequence[SourceIndex], workers: int, engine: Engine | None) -> Engine:
    if engine is not None and _pickles(partial(_make, indexes)):
        return engine
    return _local(indexes, workers, sum(map(_missing_bytes, indexes)))


def _local(indexes: Sequence[SourceIndex], workers: int, size: int) -> Engine:
    """Return processes of this machine, if so many bytes are worth it."""
    in_processes = workers > 1 and size > _PARALLEL_BYTES and _pickles(partial(_make, indexes))
    return LocalEngine(workers) if in_processes else ThreadEngine(1)


Shown = Callable[[int, int | None, str], None]
"""Called like ``Progress``, with a note."""


def build_in_processes(
    indexes: Sequence[SourceIndex],
    workers: int | None = None,
    progress: Shown | None = None,
    engine: Engine | None = None,
) -> None:
    """Make the indexes of some sources at once, if so much is missing that processes are worth it.

    Args:
        indexes: Indexes of the sources.
        workers: Number of processes; None for one per core, in the first process of a node.
        progress: Called with the number of parts that are done, of all, and a note; None to show a bar.
        engine: See ``build``. It makes all that is missing, however little.
    """
    if workers is None:
        workers = len(os.sched_getaffinity(0)) if is_first() else 0
    missing = [index for index in indexes if _missing_bytes(index)]
    if engine is None and (workers < 2 or sum(map(_missing_bytes, missing)) <= _PARALLEL_BYTES):
        return
    if not missing:
        return
    if progress is not None:
        build(missing, workers, lambda done, total: progress(done, total, ""), engine=engine)
        return
    name = missing[0].source.name if len(missing) == 1 else f"{len(missing)} sources"
    shown = IndexProgress(name, sum(len(index.known) for index in missing))
    try:
        build(missing, workers, lambda done, _: shown.update(None, done, lambda: 0.0, upto=None))
    finally:
        shown.end()


class _Tasks:
    """Tasks, counted as they are taken."""

    def __init__(self, tasks: Iterator[_Task]) -> None:
        self._tasks = tasks
        self._found = 0
        self.total: int | None = None

    def __iter__(self) -> Iterator[_Task]:
        for task in self._tasks:
            self._found += task.parts
            yield task
        self.total = self._found


def _run(
    indexes: Sequence[SourceIndex],
    rows: Sequence[NewRows],
    tasks_of: Callable[[int, SourceIndex], Iterator[_Task]],
    engine: Engine,
    show: Progress,
) -> None:
    """Make what is missing, and keep it."""
    tasks = _Tasks(task for number, index in enumerate(indexes) for task in tasks_of(number, index))
    todo = list(tasks) if isinstance(engine, ThreadEngine) else tasks
    done = 0
    show(done, tasks.total)
    try:
        with closing(engine.map(partial(_make, indexes), todo)) as outcomes:
            for outcome in outcomes:
                made = outcome.get()
                if made is not None:
                    _keep(made, rows[outcome.task.source], indexes[outcome.task.source].source.metadata)
                done += outcome.task.parts
                show(done, tasks.total)
    except ContentError as error:
        raise ManifestError(str(error)) from None
    except WorkerLost as error:
        raise ManifestError(
            f"a process that indexed was killed: {error}; what is finished is kept: run it again, with fewer --workers"
        ) from None


def _keep(made: _Made, rows: NewRows, shelf: Path) -> None:
    rows.update(made.rows)
    rows.keep()
    for name, content in made.files.items():
        make_folder(shelf)
        write_atomically(shelf / name, [content], shared=True)


def _missing_bytes(index: SourceIndex) -> int:
    """Return the size of the files that are not indexed, as if each had some bytes more."""
    if index.source.judge.keeps and index.source.must_keep:
        return index.content_bytes()
    sizes = index.known.table.sizes()[~index.known.table.is_indexed()]
    return int(sizes.sum()) + len(sizes) * _BYTES_PER_FILE


def _pickles(work: Callable[[_Task], Any]) -> bool:
    """Return whether other processes can unpickle something, and import what it names."""
    try:
        return b"__main__" not in pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False


def _make(indexes: Sequence[SourceIndex], task: _Task) -> _Made | None:
    return task.make(indexes[task.source], *task.arguments)


def _small(number: int, index: SourceIndex, share: JobShare = ALL) -> Iterator[_Task]:
    """Yield the small files that are not indexed yet."""
    missing = [file for file in SmallFiles(index.known).missing() if share.has(file // _FILES_PER_TASK)]
    for first in range(0, len(missing), _FILES_PER_TASK):
        files = missing[first : first + _FILES_PER_TASK]
        yield _Task(number, _make_files, (files,), len(files))


def _make_files(index: SourceIndex, files: Sequence[int]) -> _Made:
    small = SmallFiles(index.known)
    return _Made(rows={file: small.make(file) for file in files})


def _segments(number: int, index: SourceIndex) -> Iterator[_Task]:
    """Yield all segments to make of files that are not small."""
    yield from (_Task(number, _make_segment, each) for each in _missing_segments(index))


def _distant_segments(number: int, index: SourceIndex, share: JobShare = ALL) -> Iterator[_Task]:
    """Yield all segments to make of files that are not small, to be made away from the shelf."""
    small = set(SmallFiles(index.known).missing())  # which other jobs make
    for file, segment, mark in _missing_segments(index):
        is_own = file not in small and share.has(file + segment)
        if is_own and not index.file_index(file).is_saved(segment):
            yield _Task(number, _make_distant_segment, (file, segment, mark))


def _missing_segments(index: SourceIndex) -> Iterator[tuple[int, int, int]]:
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


def _make_distant_segment(index: SourceIndex, file: int, segment: int, mark: int) -> _Made:
    """Make a segment in an empty shelf, and return the files that are in it then."""
    with tempfile.TemporaryDirectory(prefix="penstock-index-") as folder:
        source = replace(index.source, metadata=Path(folder))
        _make_segment(SourceIndex(KnownFiles(source, index.known.table)), file, segment, mark)
        written = [path for path in Path(folder).iterdir() if path.is_file() and not path.name.startswith(".")]
        return _Made(files={path.name: path.read_bytes() for path in written})


def _hashes(number: int, index: SourceIndex) -> Iterator[_Task]:
    """Yield the segments whose records have no hashes yet."""
    yield from (_Task(number, hash_segment, (group,)) for group in unhashed(index))
