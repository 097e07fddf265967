"""Packs of items that share a row, as the items of a plan; see ``readers.reader.Reader``. Knows lengths; no tokens.

Items stay in their group. Which items are in a pack depends on the group and the epoch alone: it is computed where it
is needed, and a pack can be read without those before it.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from penstock.manifest.manifest import Manifest
from penstock.plan.draws import Ints, key
from penstock.readers.errors import ContentError
from penstock.readers.kept import Kept
from penstock.readers.reader import Uses
from penstock.readers.records.reader import Record
from penstock.readers.records.sourceindex import Located, SourceIndex
from penstock.readers.shelf import Shelf, Subject
from penstock.store.extents import Extent

_KEPT_DEALS = 256
_COUNTS = "packs per group 1"


class Packs(Protocol):
    """The items of each pack of a group."""

    def __len__(self) -> int: ...

    def __getitem__(self, pack: int) -> Ints: ...

    def of(self, samples: Ints) -> Ints: ...


Deal = Callable[[Ints, int, int], Packs]
"""Lengths of a group's items, tokens of a pack, a key -> the packs."""


class PackManifest(Manifest):
    """One source whose items are packs; see ``Manifest``.

    Args:
        name: of the source.
        index: its samples, with their lengths.
        counts: packs of each group.
        fingerprint: of all that the order depends on.
        limit: at most how many samples an epoch has; None for all. It becomes the number of packs that hold so many on
            average: a pack is never cut.
        modality: of the source.
    """

    def __init__(
        self, name: str, index: SourceIndex, counts: Ints, *, fingerprint: str, limit: int | None, modality: str
    ) -> None:
        self._index = index
        packs = int(counts.sum())
        samples = int(index.starts(0)[-1])
        super().__init__(
            [name],
            [counts],
            fingerprints=[fingerprint],
            amounts={"tokens": [index.tokens]},
            limits=[None if limit is None else max(1, min(limit, samples) * packs // samples)],
            modalities=[modality],
        )

    def group_name(self, source: int, group: int) -> str:  # noqa: ARG002  # there is one source
        return self._index.group_path(group)


def count_packs(index: SourceIndex, capacity: int, deal: Deal, shelf: Path, about: str) -> Ints:
    """Return the packs of each group; they are the same in every epoch.

    Args:
        index: complete, with lengths.
        capacity: tokens of a pack.
        deal: deals items to packs.
        shelf: the folder in which the counts are kept.
        about: names the index.
    """
    subject = Subject("packs", about, str(capacity))
    counts = Shelf(shelf, _COUNTS)
    groups = len(index.starts(0)) - 1
    kept = counts.get(subject)
    if kept is not None and len(kept) == 8 * groups:
        return np.frombuffer(kept, np.int64)
    found = np.array([len(deal(index.lengths(group), capacity, 0)) for group in range(groups)], dtype=np.int64)
    counts.put(subject, found.tobytes())
    return found


class PackReader:
    """Reads packs of one source; see ``readers.reader.Counting``.

    Args:
        manifest: the packs.
        index: the samples.
        about: what recipes have to know of the source.
        capacity: tokens of a pack.
        deal: deals items to packs.
        seed: of the run.
    """

    def __init__(
        self, manifest: PackManifest, index: SourceIndex, about: Any, capacity: int, deal: Deal, seed: int
    ) -> None:
        self._arguments = (manifest, index, about, capacity, deal, seed)
        self._manifest = manifest
        self._index = index
        self.about = about
        self._capacity = capacity
        self._deal = deal
        self._seed = seed
        self.counted = True
        self._deals: Kept[tuple[int, int], Packs] = Kept(_KEPT_DEALS)
        self._resident: Kept[int, Sequence[Extent]] = Kept(1_024)

    def __reduce__(self) -> tuple[Any, ...]:
        return PackReader, self._arguments

    def _packs(self, group: int, epoch: int) -> Packs:
        def make() -> Packs:
            own = key(self._seed, "packs", self._manifest.sources[0], epoch, group)
            return self._deal(self._index.lengths(group), self._capacity, own)

        return self._deals.get_or_make((group, epoch), make)

    def _members(self, uses: Uses) -> list[list[Located]]:
        _, _, packs = self._manifest.locate(uses.row)
        found = []
        for group, pack, epoch in zip(uses.group.tolist(), packs.tolist(), uses.epoch.tolist(), strict=True):
            items = self._packs(group, epoch)[pack].tolist()
            found.append([self._index.locate(group, item) for item in items])
        return found

    def wants(self, uses: Uses) -> list[Sequence[Extent]]:
        return [
            [extent for each in members for extent in each.file.extents(np.array([each.place]))]
            for members in self._members(uses)
        ]

    def group_bytes(self, source: int) -> Ints:  # noqa: ARG002  # there is one source
        return self._index.group_bytes()

    def resident(self, source: int, group: int) -> Sequence[Extent]:  # noqa: ARG002  # there is one source
        def make() -> Sequence[Extent]:
            return self._index.locate(group, 0).file.extents(self._index.places(group))

        return self._resident.get_or_make(group, make)

    def locate(self, uses: Uses) -> list[list[Located] | ContentError]:
        return list(self._members(uses))

    def read(self, places: Sequence[list[Located]]) -> list[tuple[Record, ...] | ContentError]:
        return [tuple(Record(self.about, each) for each in members) for members in places]

    def names(self, uses: Uses) -> list[list[str]]:
        return [[str(each.row) for each in members] for members in self._members(uses)]

    def counts(self, uses: Uses) -> Mapping[str, Ints]:
        """Return the tokens that are trained."""
        _, _, packs = self._manifest.locate(uses.row)
        each = zip(uses.group.tolist(), packs.tolist(), uses.epoch.tolist(), strict=True)
        found = [int(self._index.labels(group)[self._packs(group, epoch)[pack]].sum()) for group, pack, epoch in each]
        return {"label_tokens": np.array(found, dtype=np.int64)}

    def find(self, name: str, epoch: int) -> list[int]:
        """Return the rows of the packs that hold a record in an epoch."""
        path, _, row = name.rpartition(":")
        if not row.isdecimal():
            return []
        starts = self._index.starts(0)
        rows = []
        for item in self._index.find(path, int(row)):
            group = int(starts.searchsorted(item, side="right")) - 1
            pack = int(self._packs(group, epoch).of(np.array([item - starts[group]]))[0])
            rows.append(int(self._manifest.rows(0, group, pack)))
        return rows

    def close(self) -> None:
        self._index.close()
