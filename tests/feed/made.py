"""Sources that are only numbers: runs of any sizes that open in milliseconds, for tests of orders and states.

The text of an item is its name; ``data`` of an entry stands for its content, which its fingerprint knows.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import penstock
from penstock.feed import Feed
from penstock.recipes.recipe import Bad, Item
from penstock.store.extents import Extent


class MadeKeys(penstock.Strict):
    """Keys of an entry: sizes of the groups of each of its sources, what stands for their data, and hours, if known."""

    sizes: dict[str, list[int]]
    data: str = ""
    hours: dict[str, int] | None = None
    limit: int | None = None


class MadeReader:
    def __init__(self, manifest: penstock.Manifest) -> None:
        self._manifest = manifest

    def wants(self, uses: penstock.Uses) -> list[Sequence[Extent]]:
        return [[] for _ in uses.row]

    def resident(self, source: int, group: int) -> Sequence[Extent]:
        return []

    def locate(self, uses: penstock.Uses) -> list[Any]:
        return list(self.names(uses))

    def read(self, places: Sequence[Any]) -> list[Any]:
        return list(places)

    def names(self, uses: penstock.Uses) -> list[str]:
        return [f"{self._manifest.sources[source]}-{row}" for source, row in zip(uses.source, uses.row, strict=True)]

    def find(self, name: str, epoch: int) -> list[int]:
        number = name.rpartition("-")[2]
        row = int(number) if number.isdecimal() else len(self._manifest)
        is_there = row < len(self._manifest) and self._manifest.sources[int(self._manifest.locate(row)[0])] in name
        return [row] if is_there else []

    def close(self) -> None:
        pass


class MadeRecipe:
    """Batches of the draws of their items: the randomness of a sample is compared, too."""

    needs = None

    def start(self, size: int) -> list[Any]:
        return [None] * size

    def fill(self, work: list[Any], records: Mapping[int, tuple[Item, str]]) -> list[Bad]:
        for index, (item, record) in records.items():
            assert item.id == record
            work[index] = item.draw
        return []

    def finish(self, work: list[Any]) -> dict[str, Any]:
        return {"draws": work}

    def preview(self, batch: dict[str, Any], index: int) -> Iterable[tuple[str, bytes]]:
        return []


class MadePipeline:
    options = penstock.Strict
    source = MadeKeys

    def recipe(self, options: Any) -> MadeRecipe:
        return MadeRecipe()

    def open(
        self,
        source: MadeKeys,
        needs: None,
        context: penstock.Context,
    ) -> tuple[penstock.Manifest, MadeReader]:
        names = list(source.sizes)
        manifest = penstock.Manifest(
            names,
            [np.array(sizes) for sizes in source.sizes.values()],
            fingerprints=[penstock.fingerprint(name, source.sizes[name], source.data) for name in names],
            amounts=None if source.hours is None else {"hours": [source.hours[name] for name in names]},
            limits=[source.limit] * len(names),
        )
        return manifest, MadeReader(manifest)


def entry(name: str, *sizes: int, at: int = 0, **keys: Any) -> dict[str, Any]:
    """Return an entry of ``sources`` with one source, or with those of ``sizes`` by name."""
    own = {"sizes": {name: list(sizes)}, **keys}
    return {"name": name if len(own["sizes"]) == 1 else "", **own, **({"at": at} if at else {})}


def made_run(*sources: dict[str, Any], rank: int = 0, world: int = 1, **options: Any) -> Feed:
    """Open a run of made sources."""
    keys = {"global_batch_size": 4, "seed": 5, "cache": {"dir": Path("never-made"), "size": "1MB"}, **options}
    pipelines = {"made": MadePipeline()}
    return penstock.open(
        {**keys, "recipe": "made", "sources": list(sources)}, rank=rank, world=world, pipelines=pipelines
    )
