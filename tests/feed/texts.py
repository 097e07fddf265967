"""A pipeline without files: the config lists the texts of every group. For tests of what the feed makes of sources."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.config import Strict
from penstock.manifest.growing import GrowingManifest
from penstock.manifest.manifest import Manifest, fingerprint
from penstock.pipelines.pipeline import Context
from penstock.readers.errors import ContentError
from penstock.readers.reader import Uses
from penstock.recipes.recipe import Bad, Item, each
from penstock.store.extents import Extent
from tests.plan.indexes import PrefixIndex


class TextKeys(Strict):
    """An entry of ``sources``: its texts by group. One that begins with ``bad`` can not be used."""

    texts: list[list[str]]
    limit: int | None = None
    modality: str = ""


class TextReader:
    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        self._texts = [text for group in texts for text in group]

    def wants(self, uses: Uses) -> list[Sequence[Extent]]:
        return [()] * len(uses.row)

    def resident(self, source: int, group: int) -> Sequence[Extent]:
        return ()

    def locate(self, uses: Uses) -> list[int | ContentError]:
        return uses.row.tolist()

    def read(self, places: Sequence[int]) -> list[str | ContentError]:
        return [self._texts[row] for row in places]

    def names(self, uses: Uses) -> list[str]:
        return [self._texts[row] for row in uses.row.tolist()]

    def find(self, name: str, epoch: int) -> list[int]:
        return [row for row, text in enumerate(self._texts) if text == name]

    def close(self) -> None:
        pass


class Texts:
    """The recipe: ``texts`` in the order of the batch."""

    needs = None

    def start(self, size: int) -> list[str]:
        return [""] * size

    def fill(self, work: list[str], records: Mapping[int, tuple[Item, str]]) -> list[Bad]:
        def make(index: int, item: Item, record: str) -> None:
            if record.startswith("bad"):
                raise ContentError(item.source, item.id, "a bad text")
            work[index] = record

        return each(records, make)

    def finish(self, work: list[str]) -> dict[str, Any]:
        return {"texts": work}

    def preview(self, batch: dict[str, Any], index: int) -> Any:
        yield "txt", batch["texts"][index].encode()


class TextPipeline:
    options = Strict
    source = TextKeys

    def recipe(self, options: Strict) -> Texts:
        return Texts()

    def open(self, source: TextKeys, needs: Any, context: Context) -> tuple[Manifest, TextReader]:
        sizes = np.array([len(group) for group in source.texts])
        digest = fingerprint(source.texts)
        if context.needs_sizes:
            limits = [source.limit]
            manifest = Manifest(["texts"], [sizes], fingerprints=[digest], limits=limits, modalities=[source.modality])
            return manifest, TextReader(source.texts)
        index = PrefixIndex(sizes)
        growing = GrowingManifest("texts", index, fingerprint=digest, limit=source.limit, modality=source.modality)
        return growing, TextReader(source.texts)
