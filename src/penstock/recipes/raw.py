"""The raw recipe: the bytes of every record by extension, as they are stored. Knows nothing of what they mean."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from penstock.recipes.recipe import Bad, Item, each


class ReadableFile(Protocol):
    """One file of a record."""

    def read(self) -> bytes: ...


class Raw:
    """Makes batches with ``records``: a dict of extension -> bytes for every row, empty for padding."""

    needs = None

    def start(self, size: int) -> list[dict[str, bytes]]:
        return [{} for _ in range(size)]

    def fill(
        self, work: list[dict[str, bytes]], records: Mapping[int, tuple[Item, Mapping[str, ReadableFile]]]
    ) -> list[Bad]:
        def make(index: int, _: Item, record: Mapping[str, ReadableFile]) -> None:
            work[index] = {extension: file.read() for extension, file in record.items()}

        return each(records, make)

    def finish(self, work: list[dict[str, bytes]]) -> dict[str, Any]:
        return {"records": work}

    def preview(self, batch: dict[str, Any], index: int) -> Iterable[tuple[str, bytes]]:
        files: dict[str, bytes] = batch["records"][index]
        return files.items()
