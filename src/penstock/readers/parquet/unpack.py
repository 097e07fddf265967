"""Row groups of Parquet files -> pieces in Arrow's format, for random access. Knows no column's meaning."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from penstock.readers.arrow.pieces import cut, table_bytes
from penstock.readers.learnt import Learnt
from penstock.readers.parquet.footer import FOOTER, Footer
from penstock.readers.parquet.rows import row_batches
from penstock.readers.ranges import Ranges
from penstock.store.blob import ByteRange
from penstock.store.cache.derived import Piece

MOST_ROWS = 8_192  # of a piece
MOST_BYTES = 64 << 20
_KEPT_FOOTERS = 16


def rows_per_piece(footer: Footer, group: int) -> int:
    """Return how many rows of a row group are one piece: known before the row group is read."""
    row_group = footer.metadata.row_group(group)
    per_row = max(1, row_group.total_byte_size // max(1, row_group.num_rows))
    return int(min(MOST_ROWS, max(1, MOST_BYTES // per_row)))


class Unpack:
    """Makes pieces of row groups; see ``store.cache.derived.Maker``. The range of an input is that of a row group.

    Args:
        ranges: the files.
        columns: the columns to keep; None for all.
        shelf: the folder of what was learnt about files.
    """

    def __init__(self, ranges: Ranges, columns: Sequence[str] | None, shelf: Path) -> None:
        self._ranges = ranges
        self._columns = columns
        self._shelf = shelf
        self._footers = Learnt(FOOTER, ranges, shelf, _KEPT_FOOTERS)
        digest = hashlib.sha256("\n".join(columns or ()).encode()).hexdigest()[:8]
        self.name = f"rows-1-{digest}" if columns is not None else "rows-1"

    def __reduce__(self) -> tuple[Any, ...]:
        return Unpack, (self._ranges, self._columns, self._shelf)

    def make(self, path: str, within: ByteRange | None) -> Iterator[Piece]:
        footer = self._footers.get(path)
        assert within is not None
        group = footer.byte_ranges.index(within)
        batches = row_batches(self._ranges, path, footer, group, self._columns)
        return map(table_bytes, cut(batches, rows_per_piece(footer, group)))

    def expected_size(self, path: str, within: ByteRange | None, number: int) -> int:
        footer = self._footers.get(path)
        assert within is not None
        group = footer.byte_ranges.index(within)
        row_group = footer.metadata.row_group(group)
        rows = rows_per_piece(footer, group)
        own = min(rows, row_group.num_rows - number * rows)
        return int(row_group.total_byte_size * own // max(1, row_group.num_rows))
