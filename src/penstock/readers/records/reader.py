"""Items of a source -> records, by random access; see ``readers.reader.Reader``. Knows no format of text."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from penstock.manifest.growing import GrowingManifest
from penstock.manifest.manifest import Manifest
from penstock.plan.draws import Ints
from penstock.readers.errors import ContentError
from penstock.readers.lrucache import LruCache
from penstock.readers.reader import BaseReader, Evidence, Uses
from penstock.readers.records.hashing import RecordContents
from penstock.readers.records.record import Record
from penstock.readers.records.sourceindex import SourceIndex
from penstock.store.extents import Extent

_KEPT_GROUPS = 1_024


class RecordManifest(Manifest):
    """One source whose index is complete; see ``Manifest``.

    Args:
        name: Name of the source.
        index: Items of the source.
        fingerprint: Digest of all that the order depends on.
        limit: Maximum number of items per epoch; None for all.
        modality: Modality of the source.
    """

    def __init__(self, name: str, index: SourceIndex, *, fingerprint: str, limit: int | None, modality: str) -> None:
        index.finish()
        self._index = index
        self._made_of = (name, index, fingerprint, limit, modality)
        super().__init__(
            [name],
            [np.diff(index.starts(0))],
            fingerprints=[fingerprint],
            amounts={"tokens": [index.tokens]},
            limits=[limit],
            modalities=[modality],
        )

    def __reduce__(self) -> tuple[object, ...]:
        name, index, fingerprint, limit, modality = self._made_of
        return partial(RecordManifest, fingerprint=fingerprint, limit=limit, modality=modality), (name, index)

    def group_name(self, source: int, group: int) -> str:  # noqa: ARG002  # there is one source
        return self._index.group_path(group)


def unforeseen_media(manifest: Manifest) -> str | None:
    """Return what a forecast has to say of a source with media; None for text."""
    media = sorted({modality for modality in manifest.modalities if modality not in ("", "text")})
    if not media:
        return None
    return f"{', '.join(media)} files that records name are found when a record is read, and are not in the forecast"


class GrowingRecordManifest(GrowingManifest):
    """One source in file order, whose index grows; see ``GrowingManifest``."""

    growing: SourceIndex

    def group_name(self, source: int, group: int) -> str:  # noqa: ARG002
        return self.growing.group_path(group)


class RecordReader(BaseReader):
    """Reads the records of one source. A recipe gets tuples of one record: packs have several.

    Args:
        manifest: Items of the source.
        index: Index of the source.
        about: What recipes have to know of the source; every record has it.
        counted: Whether the index has the number of trained tokens.
    """

    def __init__(self, manifest: Manifest, index: SourceIndex, about: Any, *, counted: bool = False) -> None:
        self._manifest = manifest
        self._index = index
        self.about = about
        self.counted = counted
        self._resident: LruCache[int, Sequence[Extent]] = LruCache(_KEPT_GROUPS)
        self._contents = RecordContents(index)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(RecordReader, counted=self.counted), (self._manifest, self._index, self.about)

    def records_of(self, uses: Uses) -> list[Record]:
        """Return the records, which are not read yet. Waits for no store: indexes are on disk."""
        items = uses.row - self._index.firsts(uses.group)
        numbers = uses.group.tolist()
        groups = {number: self._index.group(number) for number in set(numbers)}
        return [Record(self.about, groups[number], item) for number, item in zip(numbers, items.tolist(), strict=True)]

    def wants(self, uses: Uses) -> list[Sequence[Extent]]:
        return [record.extents() for record in self.records_of(uses)]

    def group_bytes(self, source: int) -> Ints:  # noqa: ARG002  # there is one source
        return self._index.group_bytes()

    def resident(self, source: int, group: int) -> Sequence[Extent]:  # noqa: ARG002  # there is one source
        if group + 1 >= len(self._index.starts(0)):  # a growing index that has no such group yet
            self._index.open_stores()
            return ()
        return self._resident.get_or_make(group, lambda: self._index.group(group).extents())

    def locate(self, uses: Uses) -> list[Record | ContentError]:
        return list(self.records_of(uses))

    def read(self, places: Sequence[Record]) -> list[tuple[Record, ...] | ContentError]:
        return [(record,) for record in places]

    def names(self, uses: Uses) -> list[str]:
        return [str(record.row) for record in self.records_of(uses)]

    def counts(self, uses: Uses) -> Mapping[str, Ints]:
        """Return the number of trained tokens per use."""
        items = uses.row - self._index.firsts(uses.group)
        found = np.zeros(len(items), dtype=np.int64)
        for group in np.unique(uses.group).tolist():
            here = uses.group == group
            found[here] = self._index.group(group).labels[items[here]]
        return {"label_tokens": found}

    def lengths(self, rows: Ints, unit: str) -> Ints | None:
        """Return the number of tokens of each item."""
        if unit != "tokens" or not self.counted:
            return None
        starts = self._index.starts(0)
        groups = np.searchsorted(starts, rows, side="right") - 1
        found = np.zeros(len(rows), dtype=np.int64)
        order = np.argsort(groups, kind="stable")
        for here in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1) if len(rows) else ():
            group = int(groups[here[0]])
            found[here] = self._index.group(group).lengths[rows[here] - starts[group]]
        return found

    def unforeseen(self) -> str | None:
        return unforeseen_media(self._manifest)

    def evidence(self) -> tuple[Evidence, ...]:
        return self._contents.evidence()

    def contents(self, uses: Uses, evidence: Evidence) -> list[str]:
        return [self._contents.of((record,), evidence) for record in self.records_of(uses)]

    def find(self, name: str, epoch: int) -> list[int]:  # noqa: ARG002  # the same in every epoch
        path, _, row = name.rpartition(":")
        return self._index.find(path, int(row)) if row.isdecimal() else []

    def close(self) -> None:
        self._index.close()
