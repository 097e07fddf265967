"""A file whose records are runs of bytes; see ``recordfile.RecordFile``."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from penstock.plan.draws import Ints
from penstock.readers.records.content import MOST_BYTES, TOO_LONG, BadRecord, Content
from penstock.readers.records.layouts import Layout
from penstock.readers.records.recordfile import Place, Segment, Weight
from penstock.readers.records.strides import STRIDE_BYTES
from penstock.store.extents import Extent

_READ_BYTES = 16 << 20  # at a time, of several records


def _runs(places: Ints) -> Iterator[Ints]:
    """Split places into runs that are read at once: of some megabytes, or of one record that has more."""
    at = 0
    while at < len(places):
        after = int(np.searchsorted(places[:, 1], places[at, 0] + _READ_BYTES, side="right"))
        after = max(after, at + 1)
        yield places[at:after]
        at = after


class SpanFile:
    """Lines, arrays or CSV. A place is the first byte of a record, and the byte after its last.

    Args:
        content: of the file.
        layout: how records lie in it.
    """

    def __init__(self, content: Content, layout: Layout) -> None:
        self._content = content
        self._layout = layout

    @property
    def path(self) -> str:
        return self._content.path

    @property
    def layout(self) -> str:
        return self._layout.name

    def segment(self, number: int, mark: int) -> Segment:
        found = self._layout.find(self._content, number, mark)
        return Segment(np.stack([found.starts, found.ends], axis=1), found.mark)

    def records(self, places: Ints, leave_out: Sequence[str]) -> Iterator[dict[str, Any] | BadRecord]:  # noqa: ARG002
        for run in _runs(places):
            first = int(run[0, 0])
            if run[0, 1] - first > MOST_BYTES:  # such a run has no other
                yield BadRecord(TOO_LONG)
                continue
            data = self._content.read(first, int(run[-1, 1]))
            for start, end in (run - first).tolist():
                try:
                    yield self._layout.parse(self._content, data[start:end].tobytes())
                except BadRecord as error:
                    yield error

    def load(self, place: Place) -> dict[str, Any]:
        start, end = place
        if end - start > MOST_BYTES:
            raise BadRecord(TOO_LONG)
        return self._layout.parse(self._content, self._content.read(start, end).tobytes())

    def extents(self, places: Ints) -> Sequence[Extent]:
        return self._content.extents(int(places[0, 0]), int(places[-1, 1]))

    def count(self) -> int | None:
        return self._layout.count(self._content)

    def weight(self) -> Weight:
        return Weight(self._content.cached_size(), STRIDE_BYTES)

    def close(self) -> None:
        self._content.strided.close()
