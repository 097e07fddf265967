"""``meta/episodes`` and ``meta/tasks.parquet`` of a dataset: the rows and the video times of each episode."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from penstock.manifest.errors import ManifestError, Problems
from penstock.plan.draws import Ints
from penstock.readers.errors import first_line
from penstock.readers.lerobot.columns import exact
from penstock.readers.lerobot.info import Info
from penstock.readers.parquet.memory import refuse_bomb

TASKS_PATH = "meta/tasks.parquet"
_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
_COLUMNS = (
    "episode_index",
    "length",
    "data/chunk_index",
    "data/file_index",
    "dataset_from_index",
    "dataset_to_index",
)
_MOST_TASKS = 1 << 24
_VIDEO_COLUMNS = ("chunk_index", "file_index", "from_timestamp", "to_timestamp")

ReadObject = Callable[[str], bytes]
"""Returns the bytes of an object of the dataset's store."""


class Seconds(NamedTuple):
    """Where each episode lies in the videos of one camera, as parallel arrays."""

    chunk: Ints
    file: Ints
    start: NDArray[np.float64]
    end: NDArray[np.float64]


@dataclass(frozen=True)
class Episodes:
    """All episodes of a dataset, as parallel arrays.

    Attributes:
        index: Number of each episode.
        length: Number of frames.
        chunk: Chunk of the file of rows.
        file: Number of the file of rows in its chunk.
        start: Number of the first frame in the dataset.
        stop: Number of the last frame in the dataset, plus 1.
        tasks: Tasks in words, a list per episode. Arrow's arrays are mapped by worker processes; lists would be copied.
        videos: Places of the episodes in videos, by camera.
    """

    index: Ints
    length: Ints
    chunk: Ints
    file: Ints
    start: Ints
    stop: Ints
    tasks: pa.Array
    videos: Mapping[str, Seconds]

    def __len__(self) -> int:
        return len(self.index)


def read_episodes(info: Info, read: ReadObject, name: str) -> Episodes:
    """Read the table of episodes, without its statistics.

    Args:
        info: Description of the dataset.
        read: Function that reads an object of the dataset.
        name: Name of the dataset, for messages.

    Raises:
        ManifestError: If the table is missing or damaged.
    """
    cameras = info.of_kind("video")
    columns = [*_COLUMNS, "tasks", *(f"videos/{key}/{column}" for key in cameras for column in _VIDEO_COLUMNS)]
    tables: list[pa.Table] = []
    while (known := sum(table.num_rows for table in tables)) < info.episodes:
        chunk, file = divmod(len(tables), info.files_per_chunk)
        path = _PATH.format(chunk_index=chunk, file_index=file)
        try:
            tables.append(_table(read(path), columns, f"{name}/{path}"))
        except FileNotFoundError:
            of = f"meta/info.json announces {info.episodes} episodes, and {known} were found"
            raise ManifestError(f"{name}/{path}: the file is missing; {of}") from None
    if not tables:
        raise ManifestError(f"{name}: the dataset has no episodes")
    table = _joined(tables, f"{name}/meta/episodes")
    if table.num_rows != info.episodes:
        of = f"{info.episodes} episodes are announced, but meta/episodes has {table.num_rows}"
        raise ManifestError(f"{name}/meta/info.json: {of}")
    where = f"{name}/meta/episodes"
    with _damage(where):  # texts are decoded here
        tasks = table.column("tasks").combine_chunks()
        listed = tasks.to_pylist()
    if not all(isinstance(own, list) and all(isinstance(task, str) for task in own) for own in listed):
        raise ManifestError(f"{where}: the column 'tasks' has the type {table.schema.field('tasks').type}, not texts")
    whole = {each: _numbers(table, each, "int64", where) for each in _COLUMNS}
    _check_numbers(whole["episode_index"], name)
    return Episodes(
        index=whole["episode_index"],
        length=whole["length"],
        chunk=whole["data/chunk_index"],
        file=whole["data/file_index"],
        start=whole["dataset_from_index"],
        stop=whole["dataset_to_index"],
        tasks=tasks,
        videos={key: _seconds(key, table, where) for key in cameras},
    )


class TaskWords(Sequence[str]):
    """Tasks in words, by number, as an array that worker processes map.

    Args:
        words: Tasks.
    """

    def __init__(self, words: pa.Array) -> None:
        self._words = words

    def __len__(self) -> int:
        return len(self._words)

    @overload
    def __getitem__(self, number: int) -> str: ...

    @overload
    def __getitem__(self, number: slice) -> list[str]: ...

    def __getitem__(self, number: int | slice) -> str | list[str]:
        found: str | list[str] = (
            self._words[number].to_pylist() if isinstance(number, slice) else self._words[number].as_py()
        )
        return found


def read_tasks(read: ReadObject, name: str) -> TaskWords:
    """Return the tasks in words, by number.

    Raises:
        ManifestError: If the table is missing or damaged.
    """
    where = f"{name}/{TASKS_PATH}"
    try:
        data = read(TASKS_PATH)
    except FileNotFoundError:
        raise ManifestError(f"{where}: the file is missing") from None
    with _damage(where):
        file = _opened(data)
        names = file.schema_arrow.names
    [words] = [each for each in names if each != "task_index"][:1] or [""]
    if not words or "task_index" not in names:
        raise ManifestError(f"{where}: the columns are {', '.join(names)}, not task and task_index")
    with _damage(where):
        table = _read(file, data, ["task_index", words])
    with _damage(where):  # texts are decoded here
        tasks = dict(zip(table.column("task_index").to_pylist(), table.column(words).to_pylist(), strict=True))
    wrong = [number for number in tasks if not isinstance(number, int) or not 0 <= number < _MOST_TASKS]
    if wrong:
        raise ManifestError(f"{where}: a task has the number {wrong[0]}")
    each = [str(tasks.get(number, "")) for number in range(max(tasks, default=-1) + 1)]
    return TaskWords(pa.array(each, pa.large_string()))


def _table(data: bytes, columns: Sequence[str], where: str) -> pa.Table:
    with _damage(where):
        file = _opened(data)
        names = file.schema_arrow.names
    missing = [column for column in columns if column not in names]
    if missing:
        raise ManifestError(f"{where}: there is no column {missing[0]!r}")
    with _damage(where):
        table = _read(file, data, columns)
    empty = [column for column in columns if table.column(column).null_count]
    if empty:
        raise ManifestError(f"{where}: the column {empty[0]!r} has missing values")
    return table


def _opened(data: bytes) -> pq.ParquetFile:
    """Open a table. No thread of pyarrow is started: a process that ends soon after that may be aborted."""
    return pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)


def _read(file: pq.ParquetFile, data: bytes, columns: Sequence[str]) -> pa.Table:
    """Read some columns, unless they would fill the memory."""
    for group in range(file.metadata.num_row_groups):
        refuse_bomb(file.metadata, len(data), group, columns, lambda start, end: data[start:end])
    return file.read(columns=list(columns), use_threads=False)


@contextmanager
def _damage(where: str) -> Iterator[None]:
    """Turn errors of pyarrow into one that names the file."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ManifestError(f"{where}: it can't be read: {first_line(error)}") from None


def _joined(tables: Sequence[pa.Table], where: str) -> pa.Table:
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise ManifestError(f"{where}: the files do not fit together: {first_line(error)}") from None


def _seconds(key: str, table: pa.Table, where: str) -> Seconds:
    kinds = ("int64", "int64", "float64", "float64")
    names = (f"videos/{key}/{column}" for column in _VIDEO_COLUMNS)
    return Seconds(*(_numbers(table, name, kind, where) for name, kind in zip(names, kinds, strict=True)))


def _numbers(table: pa.Table, name: str, kind: str, where: str) -> NDArray[Any]:
    """Return a column of numbers.

    Raises:
        ManifestError: If it has no numbers, or some would change as numbers of this kind.
    """
    column = table.column(name)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise ManifestError(f"{where}: the column {name!r} has the type {column.type}, but must hold numbers")
    try:
        return exact(column.to_numpy(), kind)
    except ValueError as error:
        raise ManifestError(f"{where}: the column {name!r}: {error}") from None


def _check_numbers(index: Ints, name: str) -> None:
    numbers, counts = np.unique(index, return_counts=True)
    problems = Problems(f"{name}/meta/episodes")
    for number in numbers[counts > 1].tolist():
        problems.add("twice", f"episode {number}", "comes more than once")
    if problems:
        raise problems.error()
