"""Arrow files of records whose batches can't be read by themselves, mapped into memory; see ``recordfile.RecordFile``.

They have dictionaries, or are of the format of 2019 and before; for others see ``batchfile``. A local file is read
where it is. A remote one enters the node cache as a whole.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.plan.draws import Ints
from penstock.readers.arrow.batches import check, to_records, without_bytes
from penstock.readers.arrow.mapped import MappedTables
from penstock.readers.arrow.messages import NotArrow
from penstock.readers.errors import ContentError
from penstock.readers.records.content import BadRecord
from penstock.readers.records.recordfile import NO_WEIGHT, Place, Segment, Weight
from penstock.store.blob import Store
from penstock.store.cache.store import CacheBackedStore
from penstock.store.extents import Extent, Unit

_SEGMENT_ROWS = 8_192


class ArrowFile:
    """One file. A place is a row, and 0.

    Args:
        path: of the file.
        open_store: opens its store.
        tables: the files of the store, mapped.
    """

    layout = "arrow-1"

    def __init__(self, path: str, open_store: Callable[[], Store], tables: MappedTables) -> None:
        self.path = path
        self._open_store = open_store
        self._tables = tables

    def _table(self) -> pa.Table:
        with self._damage():
            return self._tables.table(self.path, None)

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except (NotArrow, UnicodeDecodeError) as error:  # the latter by a name of a column
            raise ContentError(self.path, None, f"is no Arrow file, or a damaged one: {error}") from None

    def segment(self, number: int, mark: int) -> Segment:  # noqa: ARG002
        rows = self._table().num_rows
        first = number * _SEGMENT_ROWS
        after = min(first + _SEGMENT_ROWS, rows)
        places = np.arange(first, max(first, after))
        return Segment(np.stack([places, np.zeros_like(places)], axis=1), number + 1 if after < rows else None)

    def records(self, places: Ints, leave_out: Sequence[str]) -> Iterator[dict[str, Any] | BadRecord]:
        table = self._table()
        if not len(places):
            return
        with self._damage():
            here = check(table.slice(int(places[0, 0]), len(places)))
            yield from to_records(without_bytes(here, leave_out))

    def load(self, place: Place) -> dict[str, Any]:
        row = self._table().slice(place[0], 1)
        with self._damage():
            return next(to_records(check(row)))

    def count(self) -> int | None:
        return max(1, -(-int(self._table().num_rows) // _SEGMENT_ROWS))

    def extents(self, places: Ints) -> Sequence[Extent]:  # noqa: ARG002
        return (Extent(Unit(self._open_store(), self.path), 0),)

    def weight(self) -> Weight:
        store = self._open_store()
        if not isinstance(store, CacheBackedStore):
            return NO_WEIGHT
        size = store.resolve_size(self.path)
        return Weight(size, size)

    def close(self) -> None:
        self._tables.close()
