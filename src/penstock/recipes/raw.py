"""The raw recipe: every record's bytes by extension, as they are stored."""

from collections.abc import Sequence
from typing import Any

from penstock.readers.errors import ContentError
from penstock.readers.tar.reader import TarSource
from penstock.recipes.sample import Sample

Record = dict[str, bytes]


class Raw:
    """``records``: a dict of extension -> bytes for every row, empty for padding."""

    files = None  # all

    def __init__(self, source: TarSource) -> None:
        self._source = source

    def start(self, size: int) -> list[Record]:
        return [{} for _ in range(size)]

    def fill(self, work: list[Record], rows: Sequence[int], samples: Sequence[Sample]) -> dict[int, ContentError]:
        bad = {}
        for row, sample in zip(rows, samples, strict=True):
            try:
                work[row] = self._source.read(sample.row, sample.place)
            except ContentError as error:
                bad[row] = error.bare()
        return bad

    def finish(self, work: list[Record]) -> dict[str, Any]:
        return {"records": work}
