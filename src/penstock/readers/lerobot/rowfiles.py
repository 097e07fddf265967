"""The files of rows of a dataset: which rows of which file belong to an episode. Reads footers only."""

from collections.abc import Sequence
from pathlib import Path

from penstock.readers.errors import ContentError
from penstock.readers.lerobot.dataset import Dataset
from penstock.readers.metadata import MetadataFinder
from penstock.readers.parquet.footer import FOOTER, Footer, NotParquet
from penstock.readers.ranges import Ranges
from penstock.store.extents import Extent

_KEPT_FOOTERS = 64


class RowFiles:
    """The files of rows. Any number of threads may use it. Episodes are named by their place in the dataset.

    Args:
        dataset: Dataset.
        ranges: Bytes of its files.
        metadata: Folder of the metadata cache.
    """

    def __init__(self, dataset: Dataset, ranges: Ranges, metadata: Path) -> None:
        self._dataset = dataset
        self._ranges = ranges
        self._footers = MetadataFinder(FOOTER, ranges, metadata, _KEPT_FOOTERS)
        self._first_frames: dict[tuple[int, int], int] = {}

    def footer(self, at: int) -> Footer:
        """Return the footer of the file with an episode's rows. May wait.

        Raises:
            ContentError: If the file is damaged, or has no such rows.
        """
        path = self._dataset.data_path(at)
        try:
            footer = self._footers.get(path)
            rows = int(footer.first_rows[-1])
            _ = footer.byte_ranges  # raises if they do not lie in the file
        except NotParquet as error:
            raise ContentError(path, None, str(error)) from None
        start, stop = self.span(at, footer)
        if start < 0:
            begins = f"it begins with frame {int(self._dataset.episodes.start[at])} of the dataset"
            reason = f"{begins}, but its file in meta/episodes begins with frame {self.first_frame(at, footer)}"
            raise ContentError(path, self._dataset.episode_name(at), reason)
        if stop > rows:
            reason = f"its rows are {start} to {stop - 1} of the file, which has {rows} rows"
            raise ContentError(path, self._dataset.episode_name(at), reason)
        return footer

    def require_columns(self, at: int, columns: Sequence[str]) -> None:
        """Check that the file with an episode's rows has some columns. May wait.

        Raises:
            ContentError: If the file is damaged, or a column is missing.
        """
        path = self._dataset.data_path(at)
        try:
            missing = [key for key in columns if key not in self.footer(at).columns]
        except NotParquet as error:
            raise ContentError(path, None, str(error)) from None
        if missing:
            raise ContentError(path, None, f"there is no column {missing[0]!r}, which meta/info.json names")

    def footer_if_here(self, at: int) -> Footer | Extent | None:
        """Return the footer, the bytes to fetch first, or None for a bad file. Never waits."""
        try:
            footer = self._footers.get_if_here(self._dataset.data_path(at))
            if isinstance(footer, Extent):
                return footer
            start, stop = self.span(at, footer)
            if footer.byte_ranges and 0 <= start < stop <= footer.first_rows[-1]:
                return footer
        except (NotParquet, OSError):  # reported when the sample is made
            pass
        return None

    def span(self, at: int, footer: Footer) -> tuple[int, int]:
        """Return the first row of an episode in its file, and the row after its last."""
        start = int(self._dataset.episodes.start[at]) - self.first_frame(at, footer)
        return start, start + int(self._dataset.episodes.length[at])

    def first_frame(self, at: int, footer: Footer) -> int:
        """Return the number in the dataset of the first frame of the file with an episode's rows.

        Taken from the file itself if possible: an episode that names a wrong file must not move the rows of the others.
        """
        episodes = self._dataset.episodes
        file = (int(episodes.chunk[at]), int(episodes.file[at]))
        known = self._first_frames.get(file)
        if known is None:
            told = _first_index(footer)
            known = self._dataset.first_rows[file] if told is None else told
            self._first_frames[file] = known
        return known

    def bytes_per_row(self, at: int, unpacked: bool = False) -> float:
        """Return the size of a row in the file with an episode's rows, or unpacked. May wait."""
        footer = self.footer(at)
        groups = [footer.metadata.row_group(number) for number in range(footer.metadata.num_row_groups)]
        stored = sum(end - start for start, end in footer.byte_ranges)
        size = sum(group.total_byte_size for group in groups) if unpacked else stored
        return float(size / max(1, int(footer.first_rows[-1])))

    def extents(self, at: int) -> Sequence[Extent]:
        """Return the bytes of an episode's row groups, or the bytes to fetch first. Never waits."""
        footer = self.footer_if_here(at)
        if not isinstance(footer, Footer):
            return () if footer is None else (footer,)
        path = self._dataset.data_path(at)
        groups = footer.groups_of(*self.span(at, footer))
        units = dict.fromkeys(unit for group in groups for unit in footer.units_of(group))
        return [self._ranges.extent(path, unit, footer.file_size, *unit) for unit in units]


def _first_index(footer: Footer) -> int | None:
    """Return the number of a file's first frame, if statistics show that the first row group has no gap."""
    if not footer.metadata.num_row_groups:
        return None
    group = footer.metadata.row_group(0)
    for column in map(group.column, range(group.num_columns)):
        if column.path_in_schema == "index" and column.is_stats_set and column.statistics.has_min_max:
            least = column.statistics.min
            most = column.statistics.max
            return least if isinstance(least, int) and most - least + 1 == group.num_rows else None
    return None
