"""A pipeline whose groups have two objects each: ``NAME.index`` has the offsets of the items in ``NAME.data``.

A small stand-in for formats with a header. The reader wants the index until it has arrived, then the exact bytes.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import penstock
from penstock import Bad, ContentError, Context, Extent, Item, Manifest, OpenBlobs, Unit, Uses
from penstock.store.blob import Blob, Store


class Pair(NamedTuple):
    """A record: a range of ``NAME.data``."""

    blobs: OpenBlobs
    path: str
    start: int
    end: int

    def text(self) -> str:
        data = bytearray(self.end - self.start)
        self.blobs.get(self.path).readinto(memoryview(data), self.start)
        return data.decode()


class PairReader:
    def __init__(self, open_store: Callable[[], Store], names: list[str], counts: list[int]) -> None:
        self._open_store = open_store
        self._names = names
        self._counts = counts
        self._first = np.cumsum([0, *counts])
        self._blobs = OpenBlobs(open_store)
        self._indexes: dict[int, list[int]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return PairReader, (self._open_store, self._names, self._counts)

    def _lines(self, uses: Uses) -> list[tuple[int, int]]:
        return list(zip(uses.group.tolist(), (uses.row - self._first[uses.group]).tolist(), strict=True))

    def _unit(self, group: int, ending: str) -> Unit:
        return Unit(self._open_store(), f"{self._names[group]}.{ending}")

    def wants(self, uses: Uses) -> list[Sequence[Extent]]:
        found: list[Sequence[Extent]] = []
        for group, line in self._lines(uses):
            index = self._index_if_here(group)
            if index is None:
                found.append((Extent(self._unit(group, "index"), 0),))
            else:
                found.append((Extent(self._unit(group, "data"), index[line], index[line + 1]),))
        return found

    def _index_if_here(self, group: int) -> list[int] | None:
        if group not in self._indexes and (blob := self._open_store().open_if_here(f"{self._names[group]}.index")):
            self._load_index(group, blob)
            blob.close()
        return self._indexes.get(group)

    def _load_index(self, group: int, blob: Blob) -> None:
        data = bytearray(blob.size)
        blob.readinto(memoryview(data), 0)
        self._indexes[group] = json.loads(data)

    def resident(self, source: int, group: int) -> Sequence[Extent]:
        return (Extent(self._unit(group, "index"), 0), Extent(self._unit(group, "data"), 0, 0))

    def locate(self, uses: Uses) -> list[Any]:
        return [self._place(group, line) for group, line in self._lines(uses)]

    def _place(self, group: int, line: int) -> Any:
        if group not in self._indexes:
            self._load_index(group, self._blobs.get(f"{self._names[group]}.index"))
        start, end = self._indexes[group][line : line + 2]
        if start == end:
            return ContentError(self._names[group], f"line-{line}", "this line holds no caption")
        return f"{self._names[group]}.data", start, end

    def read(self, places: Sequence[Any]) -> list[Pair | ContentError]:
        return [Pair(self._blobs, *place) for place in places]

    def names(self, uses: Uses) -> list[str]:
        return [f"line-{line}" for _, line in self._lines(uses)]

    def find(self, name: str, epoch: int) -> list[int]:
        return [
            int(self._first[group]) + line
            for group, count in enumerate(self._counts)
            for line in range(count)
            if name in (f"line-{line}", f"{self._names[group]}:line-{line}")
        ]

    def close(self) -> None:
        self._blobs.close()


class Texts:
    """``texts``, and ``letters`` [B]."""

    needs = None

    def start(self, size: int) -> list[str]:
        return [""] * size

    def fill(self, work: list[str], records: dict[int, tuple[Item, Pair]]) -> list[Bad]:
        def make(index: int, item: Item, record: Pair) -> None:
            work[index] = record.text()

        return penstock.each(records, make)

    def finish(self, work: list[str]) -> dict[str, Any]:
        return {"texts": work, "letters": np.array([len(text) for text in work])}

    def preview(self, batch: dict[str, Any], index: int) -> Iterable[tuple[str, bytes]]:
        yield "txt", batch["texts"][index].encode()


class PairKeys(penstock.StoreKeys):
    names: list[str]
    counts: list[int]


class PairPipeline:
    options = penstock.Strict
    source = PairKeys

    def recipe(self, options: Any) -> Texts:
        return Texts()

    def open(self, source: PairKeys, needs: Any, context: Context) -> tuple[Manifest, PairReader]:
        manifest = Manifest(
            ["pairs"],
            [np.array(source.counts)],
            fingerprints=[penstock.fingerprint(source.names, source.counts)],
            group_names=[source.names],
        )
        return manifest, PairReader(context.opener(source), source.names, source.counts)
