"""A file whose records are runs of bytes; see ``recordfile.RecordFile``."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from penstock.plan.draws import Ints
from penstock.readers.records.content import MOST_BYTES, BadRecord, Content
from penstock.readers.records.layouts import Layout
from penstock.readers.records.recordfile import Place, Segment
from penstock.store.extents import Extent


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
        if not len(places):
            return
        first = int(places[0, 0])
        data = self._content.read(first, int(places[-1, 1]))
        for start, end in (places - first).tolist():
            try:
                yield self._parse(data[start:end].tobytes())
            except BadRecord as error:
                yield error

    def load(self, place: Place) -> dict[str, Any]:
        return self._parse(self._content.read(*place).tobytes())

    def _parse(self, data: bytes) -> dict[str, Any]:
        if len(data) > MOST_BYTES:
            raise BadRecord(f"longer than {MOST_BYTES >> 20} MiB")
        return self._layout.parse(self._content, data)

    def extents(self, places: Ints) -> Sequence[Extent]:
        return self._content.extents(int(places[0, 0]), int(places[-1, 1]))

    def count(self) -> int | None:
        return self._layout.count(self._content)

    def close(self) -> None:
        self._content.strided.close()
