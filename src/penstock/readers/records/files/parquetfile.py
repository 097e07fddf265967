"""Parquet files of records; see ``recordfile.RecordFile``.

An index reads the columns that it needs. A run reads whole rows at random, which the format is not good at: row groups
are unpacked once, into pieces of the node cache in which a row costs microseconds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.plan.draws import Ints
from penstock.readers.arrow.mapped import MappedTables
from penstock.readers.errors import ContentError
from penstock.readers.metadata import MetadataFinder
from penstock.readers.parquet.footer import FOOTER, Footer, NotParquet
from penstock.readers.parquet.memory import refuse_bomb
from penstock.readers.parquet.rows import read_batches, units_of_columns
from penstock.readers.parquet.unpack import MOST_BYTES, RowGroupUnpacker, rows_per_piece
from penstock.readers.ranges import Ranges
from penstock.readers.records.files.recordfile import BadRecord, Columns, FileSegment, Place, RecordFile, Weight
from penstock.store.cache.derived import DerivedStore, Maker, piece_path
from penstock.store.extents import Extent, Unit

JOINED_ROWS = 1_024  # of a segment, at least: small row groups are joined
_BYTES_LEAF = ".bytes"
_KEPT_FOOTERS = 64


class ParquetFiles:
    """The Parquet files of a store, with their row groups unpacked into pieces.

    Args:
        ranges: Reads the store by ranges.
        derive: Opens a store of the pieces that a maker makes.
        metadata: Folder of the metadata cache.
    """

    def __init__(self, ranges: Ranges, derive: Callable[[Maker], DerivedStore], metadata: Path) -> None:
        self._ranges = ranges
        self._footers = MetadataFinder(FOOTER, ranges, metadata, _KEPT_FOOTERS)
        store = derive(RowGroupUnpacker(ranges, None, metadata))
        self._store = store
        self._pieces = MappedTables(lambda: store)  # without a cycle, the refcount frees dropped files and their pins

    def open(self, path: str) -> "ParquetFile":
        """Return a file. Reads nothing."""
        return ParquetFile(path, self._ranges, self._footers, self._store, self._pieces)

    def close(self) -> None:
        self._pieces.close()


class ParquetFile(RecordFile):
    """A Parquet file. A place is a row group, and a row in it.

    Args:
        path: Path of the file.
        ranges: Reads the file by ranges.
        footers: Footers of the files of the store.
        store: Row groups, unpacked.
        pieces: The same, mapped into memory.
    """

    layout = "parquet-1"

    def __init__(
        self, path: str, ranges: Ranges, footers: MetadataFinder[Footer], store: DerivedStore, pieces: MappedTables
    ) -> None:
        self.path = path
        self._ranges = ranges
        self._footers = footers
        self._store = store
        self._pieces = pieces

    def _footer(self) -> Footer:
        try:
            return self._footers.get(self.path).parsed()
        except NotParquet as error:
            raise ContentError(self.path, None, str(error)) from None

    @cached_property
    def _segments(self) -> list[range]:
        """The row groups of each segment."""
        rows = np.diff(self._footer().first_rows)
        found = []
        first = 0
        count = 0
        for group, number in enumerate(rows.tolist()):
            count += number
            if count >= JOINED_ROWS:
                found.append(range(first, group + 1))
                first = group + 1
                count = 0
        if count:
            found.append(range(first, len(rows)))
        return found

    def segment(self, number: int, mark: int) -> FileSegment:  # noqa: ARG002
        segments = self._segments
        if number >= len(segments):
            return FileSegment(np.zeros((0, 2), np.int64), None)
        footer = self._footer()
        self._refuse_bombs(footer, segments[number])
        counts = np.diff(footer.first_rows)
        places = [
            np.stack([np.full(counts[group], group), np.arange(counts[group])], axis=1) for group in segments[number]
        ]
        return FileSegment(np.concatenate(places), number + 1 if number + 1 < len(segments) else None)

    def _refuse_bombs(self, footer: Footer, groups: Iterable[int]) -> None:
        try:
            for group in groups:
                refuse_bomb(footer.metadata, footer.file_size, group)
        except NotParquet as error:
            raise ContentError(self.path, None, str(error)) from None

    def records(self, places: Ints, leave_out: Sequence[str]) -> Iterator[Columns | BadRecord]:
        footer = self._footer()
        columns = _leaves(footer, leave_out)
        groups = np.unique(places[:, 0]).tolist()
        try:
            if len(columns) < len(footer.metadata.schema):
                units = units_of_columns(footer, groups, columns)
            else:
                units = list(dict.fromkeys(unit for group in groups for unit in footer.units_of(group)))
            self._ranges.fetch(self.path, units, footer.file_size)
            for group in groups:
                for batch in read_batches(self._ranges, self.path, footer, group, columns, units, JOINED_ROWS):
                    yield from batch.to_pylist()
        except NotParquet as error:
            raise ContentError(self.path, None, str(error)) from None

    def load(self, place: Place) -> Columns:
        unit, row = self._piece(self._footer(), place)
        try:
            table: pa.Table = self._pieces.table(unit.path, unit.within)
        except NotParquet as error:
            raise ContentError(self.path, None, str(error)) from None
        record: Columns = table.slice(row, 1).to_pylist()[0]
        return record

    def count(self) -> int | None:
        return len(self._segments)

    def extents(self, places: Ints) -> Sequence[Extent]:
        try:
            footer = self._footers.get_if_here(self.path)
        except (NotParquet, OSError):  # the thread that makes the sample meets it, too
            return ()
        if isinstance(footer, Extent):
            return (footer,)
        units: dict[Unit, None] = {}
        for group in np.unique(places[:, 0]).tolist():
            rows = places[places[:, 0] == group, 1]
            for piece in np.unique(rows // rows_per_piece(footer, group)).tolist():
                units[self._unit(footer, group, piece)] = None
        return [Extent(unit, 0) for unit in units]

    def _unit(self, footer: Footer, group: int, piece: int) -> Unit:
        return Unit(self._store, piece_path(self.path, piece), footer.byte_ranges[group])

    def _piece(self, footer: Footer, place: Place) -> tuple[Unit, int]:
        """Return the piece that holds a row, and the row in the piece."""
        group, row = place
        number, row = divmod(row, rows_per_piece(footer, group))
        return self._unit(footer, group, number), row

    def weight(self) -> Weight:
        metadata = self._footer().metadata
        sizes = [metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)]
        return Weight(sum(sizes), max(1, min(max(sizes, default=1), MOST_BYTES)))


def _leaves(footer: Footer, leave_out: Sequence[str]) -> list[str]:
    """Return the leaf columns to read. Of media, the path is read (it shows whether there is one), not the bytes."""
    schema = footer.metadata.schema
    names = [schema.column(number).path for number in range(len(schema))]
    kept = []
    for name in names:
        top = name.partition(".")[0]
        has_other_leaves = any(other != name and other.partition(".")[0] == top for other in names)
        if not (top.lower() in leave_out and name.endswith(_BYTES_LEAF) and has_other_leaves):
            kept.append(name)
    return kept
