"""The rows of episodes, in memory: everything but the cameras. Knows no window and no plan."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.readers.errors import ContentError
from penstock.readers.kept import Kept
from penstock.readers.lerobot.columns import column_array
from penstock.readers.lerobot.dataset import Dataset
from penstock.readers.lerobot.rowfiles import RowFiles
from penstock.readers.parquet.footer import NotParquet
from penstock.readers.parquet.rows import read_row_groups
from penstock.readers.ranges import Ranges
from penstock.store.extents import Extent

Columns = Mapping[str, NDArray[Any]]
"""The values of an episode's rows, by key: one element of each array per frame."""

_INDEX = "index"


class Tables:
    """The rows of episodes. Any number of threads may use it. Episodes are named by their place in the dataset.

    Args:
        dataset: what ``meta/`` says.
        files: of its rows.
        ranges: its files, as bytes.
        capacity: episodes whose rows are kept in memory.
    """

    def __init__(self, dataset: Dataset, files: RowFiles, ranges: Ranges, capacity: int) -> None:
        self._dataset = dataset
        self._files = files
        self._ranges = ranges
        self._rows: Kept[int, Columns] = Kept(capacity)

    def get(self, at: int) -> Columns:
        """Return the rows of an episode. May wait.

        Raises:
            ContentError: If they are not in the file, or damaged.
        """
        return self._rows.get_or_make(at, lambda: self._read(at))

    def extents(self, at: int) -> Sequence[Extent]:
        """Return the bytes of an episode's rows, or those that have to be fetched first; none if it is in memory."""
        return () if self._rows.get(at) is not None else self._files.extents(at)

    def _read(self, at: int) -> Columns:
        path = self._dataset.data_path(at)
        footer = self._files.footer(at)
        start, stop = self._files.span(at)
        groups = footer.groups_of(start, stop)
        try:
            names = set(footer.metadata.schema.to_arrow_schema().names)
            columns = [key for key in self._dataset.info.of_kind("values") if key in names]
            table = read_row_groups(self._ranges, path, footer, groups, columns)
        except NotParquet as error:
            raise ContentError(path, None, str(error)) from None
        first = int(footer.first_rows[groups.start])
        if table.num_rows > stop - start:  # they were decoded anyway, and may be asked for soon
            for other in self._others(at, first, first + table.num_rows):
                begin, end = self._files.span(other)
                self._rows.put_if_room(other, self._columns(table.slice(begin - first, end - begin), other))
        return self._columns(table.slice(start - first, stop - start), at)

    def _others(self, at: int, first: int, after: int) -> list[int]:
        """Return other episodes of the same file whose rows lie between two rows of the file."""
        episodes = self._dataset.episodes
        start = self._files.first_frame(at)
        inside = (episodes.chunk == episodes.chunk[at]) & (episodes.file == episodes.file[at])
        inside &= (episodes.start >= start + first) & (episodes.start + episodes.length <= start + after)
        return [other for other in np.flatnonzero(inside).tolist() if other != at]

    def _columns(self, table: pa.Table, at: int) -> Columns:
        features = self._dataset.info.features
        path = self._dataset.data_path(at)
        name = self._dataset.episode_name(at)
        found = {}
        for key in table.column_names:
            try:
                found[key] = column_array(table.column(key), features[key].shape)
            except ValueError as error:
                raise ContentError(path, name, f"{key}: {error}") from None
        first = int(self._dataset.episodes.start[at])
        if _INDEX in found and not np.array_equal(found[_INDEX], np.arange(first, first + table.num_rows)):
            holds = f"frames {found[_INDEX].min()} to {found[_INDEX].max()}"
            meant = f"{first} to {first + table.num_rows - 1}"
            raise ContentError(path, name, f"its rows hold {holds} of the dataset, not {meant}")
        return found
