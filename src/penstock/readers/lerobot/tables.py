"""The rows of episodes, in memory: everything but the cameras. Knows no window and no plan."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.plan.draws import Ints
from penstock.readers.errors import ContentError
from penstock.readers.lerobot.columns import column_array, has_shape
from penstock.readers.lerobot.dataset import Dataset
from penstock.readers.lerobot.rowfiles import RowFiles
from penstock.readers.lrucache import LruCache
from penstock.readers.parquet.footer import Footer, NotParquet
from penstock.readers.parquet.rows import read_row_groups
from penstock.readers.ranges import Ranges
from penstock.store.extents import Extent

EpisodeColumns = Mapping[str, NDArray[Any]]
"""Values of an episode's rows by key, one element per frame."""


class Tables:
    """The rows of episodes. Any number of threads may use it. Episodes are named by their place in the dataset.

    Args:
        dataset: Dataset.
        files: Files of its rows.
        ranges: Bytes of its files.
        chosen: Places of the episodes that the run uses.
        columns: Features to read.
        capacity: Number of episodes whose rows stay in memory.
    """

    def __init__(
        self,
        dataset: Dataset,
        files: RowFiles,
        ranges: Ranges,
        chosen: Ints,
        columns: Sequence[str],
        capacity: int,
    ) -> None:
        self._dataset = dataset
        self._files = files
        self._ranges = ranges
        self._chosen = chosen
        self._columns_read = columns
        self._rows: LruCache[int, EpisodeColumns] = LruCache(capacity)

    def get(self, at: int) -> EpisodeColumns:
        """Return the rows of an episode. May wait.

        Raises:
            ContentError: If they are not in the file, or damaged.
        """
        return self._rows.get_or_make(at, lambda: self._read(at))

    def extents(self, at: int) -> Sequence[Extent]:
        """Return the bytes of an episode's rows, or the bytes to fetch first; none if the rows are in memory."""
        return () if self._rows.get(at) is not None else self._files.extents(at)

    def assume_read(self, at: int) -> None:
        """Treat the rows of an episode as read, and those that are read with it; see ``BaseReader.assume_read``."""
        if self._rows.get(at) is not None:
            return
        footer = self._files.footer_if_here(at)
        if isinstance(footer, Footer):
            start, stop = self._files.span(at, footer)
            groups = footer.groups_of(start, stop)
            first, after = footer.first_rows[[groups.start, groups.stop]].tolist()
            if after - first > stop - start:
                begin = self._files.first_frame(at, footer)
                for other in self._others(at, begin + first, begin + after):
                    self._rows.put_if_room(other, {})
        self._rows.put(at, {})

    def _read(self, at: int) -> EpisodeColumns:
        footer = self._files.footer(at)
        start, stop = self._files.span(at, footer)
        groups = footer.groups_of(start, stop)
        first = int(footer.first_rows[groups.start])
        table = self._read_groups(at, groups, self._columns_read)
        if table.num_rows > stop - start:
            self._keep_others(at, footer, first, table)
        return self._columns(table.slice(start - first, stop - start), at)

    def whole_file(self, at: int) -> pa.Table:
        """Return all rows in the file with an episode's rows. May wait.

        Raises:
            ContentError: If the file is damaged.
        """
        return self._read_groups(at, range(self._files.footer(at).metadata.num_row_groups), self._columns_read)

    def check_types(self, at: int) -> None:
        """Check the types of the columns in the file with an episode's rows against the features. May wait.

        Raises:
            ContentError: If one is missing, or values of its type can't have the shape of the feature.
        """
        self._files.require_columns(at, self._columns_read)
        schema = self._files.footer(at).metadata.schema.to_arrow_schema()
        for key in self._columns_read:
            feature = self._dataset.info.features[key]
            if not has_shape(schema.field(key).type, feature):
                says = f"meta/info.json says {feature.dtype} of shape {list(feature.shape)}"
                reason = f"{key}: the column has the type {schema.field(key).type}, but {says}"
                raise ContentError(self._dataset.data_path(at), None, reason)

    def _read_groups(self, at: int, groups: range, columns: Sequence[str]) -> pa.Table:
        path = self._dataset.data_path(at)
        self._files.require_columns(at, columns)
        try:
            return read_row_groups(self._ranges, path, self._files.footer(at), groups, columns)
        except NotParquet as error:
            raise ContentError(path, None, str(error)) from None

    def _keep_others(self, at: int, footer: Footer, first: int, table: pa.Table) -> None:
        """Cache the rows of other episodes that were decoded as well: they may be needed soon."""
        start = self._files.first_frame(at, footer) + first
        for other in self._others(at, start, start + table.num_rows):
            if not self._rows.has_room():
                return
            begin, end = self._files.span(other, footer)
            with suppress(ContentError):  # reported when that episode is read
                self._rows.put_if_room(other, self._columns(table.slice(begin - first, end - begin), other))

    def _others(self, at: int, first: int, after: int) -> list[int]:
        """Return other episodes of the same file that are used, and whose frames lie between two of the dataset."""
        episodes = self._dataset.episodes
        chosen = self._chosen
        inside = (episodes.chunk[chosen] == episodes.chunk[at]) & (episodes.file[chosen] == episodes.file[at])
        inside &= (episodes.start >= first)[chosen]
        inside &= (episodes.start + episodes.length <= after)[chosen]
        return [other for other in chosen[inside].tolist() if other != at]

    def _columns(self, table: pa.Table, at: int) -> EpisodeColumns:
        features = self._dataset.info.features
        path = self._dataset.data_path(at)
        name = self._dataset.episode_name(at)
        found = {}
        for key in table.column_names:
            try:
                found[key] = column_array(table.column(key), features[key])
            except ValueError as error:
                raise ContentError(path, name, f"{key}: {error}") from None
        check_rows(self._dataset, at, found)
        return found


def check_rows(dataset: Dataset, at: int, columns: EpisodeColumns) -> None:
    """Check that rows belong to an episode.

    Args:
        dataset: Dataset.
        at: Place of the episode.
        columns: Rows of the episode.

    Raises:
        ContentError: If they do not, or name a task that does not exist.
    """
    path = dataset.data_path(at)
    name = dataset.episode_name(at)
    index = columns["index"]
    first = int(dataset.episodes.start[at])
    if not np.array_equal(index, np.arange(first, first + len(index))):
        holds = f"frames {index.min()} to {index.max()}"
        meant = f"{first} to {first + len(index) - 1}"
        raise ContentError(path, name, f"its rows hold {holds} of the dataset, not {meant}")
    numbers = columns["episode_index"]
    others = numbers[numbers != dataset.episodes.index[at]]
    if len(others):
        raise ContentError(path, name, f"a row has the episode number {int(others[0])}")
    tasks = columns["task_index"]
    wrong = tasks[(tasks < 0) | (tasks >= len(dataset.tasks))]
    if len(wrong):
        there = f"meta/tasks.parquet has {len(dataset.tasks)}"
        raise ContentError(path, name, f"a row has the task number {int(wrong[0])}, and {there}")
