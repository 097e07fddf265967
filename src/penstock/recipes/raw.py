"""The raw recipe: every record's bytes by extension, as they are stored."""

from collections.abc import Mapping
from typing import Any

from penstock.recipes.sample import Sample
from penstock.sources.tarsource import TarSource


class Raw:
    """``records``: a dict of extension -> bytes for every row, empty for padding."""

    def __init__(self, source: TarSource) -> None:
        self._source = source

    def start(self, size: int) -> dict[str, Any]:
        return {"records": [{} for _ in range(size)]}

    def fill(self, batch: dict[str, Any], row: int, sample: Sample) -> None:
        batch["records"][row] = self._source.record(sample.row)

    def finish(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        return batch
