"""A pipeline whose groups are ranges of one large object, read directly or from derived pieces of inverted bytes.

A small stand-in for episodes in a video file, and for row groups that are unpacked. Every item is a word of 8 bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

import penstock
from penstock import Bad, Context, Extent, Item, Manifest, Unit, Uses
from penstock.store.blob import ByteRange, Store
from penstock.store.cache.derived import Maker, Piece, piece_path
from penstock.store.stores import Stores

WORD = 8


class Invert(Maker):
    """Makes one piece of each range: its bytes inverted."""

    name = "invert-1"

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open_store = open_store

    def make(self, path: str, within: ByteRange | None) -> Iterator[Piece]:
        assert within is not None
        data = bytearray(within[1] - within[0])
        blob = self._open_store().open(path, within)
        blob.readinto(memoryview(data), 0)
        blob.close()
        yield [memoryview(~np.frombuffer(data, np.uint8))]

    def expected_size(self, path: str, within: ByteRange | None, number: int) -> int:
        assert within is not None
        return within[1] - within[0]


class CutReader:
    def __init__(self, stores: Stores, open_store: Callable[[], Store], path: str, cuts: list[int], made: bool) -> None:
        self._stores = stores
        self._open_store = open_store
        self._path = path
        self._cuts = cuts  # in words
        self._made = made

    def __reduce__(self) -> tuple[Any, ...]:
        return CutReader, (self._stores, self._open_store, self._path, self._cuts, self._made)

    @cached_property
    def _store(self) -> Store:
        store = self._open_store()
        return self._stores.derived(store, Invert(self._open_store)) if self._made else store

    def _unit(self, group: int) -> Unit:
        within = (WORD * self._cuts[group], WORD * self._cuts[group + 1])
        return Unit(self._store, piece_path(self._path, 0) if self._made else self._path, within)

    def wants(self, uses: Uses) -> list[Sequence[Extent]]:
        return [(Extent(self._unit(group), start, start + WORD),) for group, start in self.locate(uses)]

    def resident(self, source: int, group: int) -> Sequence[Extent]:
        return (Extent(self._unit(group), 0),)

    def locate(self, uses: Uses) -> list[Any]:
        rows = uses.row.tolist()
        return [(group, WORD * (row - self._cuts[group])) for group, row in zip(uses.group.tolist(), rows, strict=True)]

    def read(self, places: Sequence[Any]) -> list[Any]:
        return [(self._unit(group), start, self._made) for group, start in places]

    def names(self, uses: Uses) -> list[str]:
        return [f"word-{row}" for row in uses.row.tolist()]

    def find(self, name: str, epoch: int) -> list[int]:
        return [row for row in range(self._cuts[-1]) if name == f"word-{row}"]

    def close(self) -> None:
        self.__dict__.pop("_store", None)


class Words:
    """``words`` [B]."""

    needs = None

    def start(self, size: int) -> Any:
        return np.zeros(size, np.int64)

    def fill(self, work: Any, records: dict[int, tuple[Item, Any]]) -> list[Bad]:
        def make(index: int, item: Item, record: Any) -> None:
            (store, path, within), start, made = record
            data = bytearray(WORD)
            blob = store.open(path, within)
            blob.readinto(memoryview(data), start)
            blob.close()
            word = np.frombuffer(data, np.int64)[0]
            work[index] = ~word if made else word

        return penstock.each(records, make)

    def finish(self, work: Any) -> dict[str, Any]:
        return {"words": work}

    def preview(self, batch: dict[str, Any], index: int) -> Iterable[tuple[str, bytes]]:
        yield "txt", str(batch["words"][index]).encode()


class CutKeys(penstock.StoreKeys):
    path: str
    cuts: list[int]
    made: bool = False


class CutPipeline:
    options = penstock.Strict
    source = CutKeys

    def recipe(self, options: Any) -> Words:
        return Words()

    def open(self, source: CutKeys, needs: None, context: Context) -> tuple[Manifest, CutReader]:
        sizes = np.diff(source.cuts)
        manifest = Manifest(["words"], [sizes], fingerprints=[penstock.fingerprint(source.cuts)])
        return manifest, CutReader(context.stores, context.opener(source), source.path, source.cuts, source.made)
