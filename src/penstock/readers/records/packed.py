"""Packs as the items of a plan: samples that share a row; see ``readers.reader.Reader``. Knows lengths, but no tokens.

Items stay in their group. Which items are in a pack depends on the group and the epoch alone: it is computed where it
is needed, and a pack can be read without those before it. The last pack of a group is seldom full, so small groups
of an index that follow one another in a file are one group of packs:

index   0        1              2     3          4
file    a.jsonl  a.jsonl        a     b.jsonl    b.jsonl
packs   0 ---------------------       1 --------------------
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from penstock.manifest.manifest import Manifest
from penstock.plan.draws import Ints, key
from penstock.readers.errors import ContentError
from penstock.readers.lrucache import LruCache
from penstock.readers.metadatacache import MetadataCache, ObjectVersion
from penstock.readers.reader import BaseReader, Evidence, Uses
from penstock.readers.records.hashing import RecordContents
from penstock.readers.records.reader import unforeseen_media
from penstock.readers.records.record import Record, RecordGroup
from penstock.readers.records.sourceindex import SourceIndex
from penstock.store.extents import Extent

_KEPT_DEALS = 256
_KEPT_GROUPS = 1_024
_KEPT_PACKS = 4_096  # more than the steps have that are fetched ahead
_COUNTS = "packs per group 1"

# Of all readers of a process, so that its memory does not grow with their number: a pack of 30 samples takes some 3 kB.
_found: LruCache[tuple[int, ...], tuple[Record, ...]] = LruCache(_KEPT_PACKS)
_numbers = itertools.count()


class DealtPacks(Protocol):
    """The items of each pack of a group."""

    def __len__(self) -> int: ...

    def __getitem__(self, pack: int) -> Ints: ...

    def of(self, samples: Ints) -> Ints: ...


Deal = Callable[[Ints, int, int], DealtPacks]
"""Lengths of a group's items, tokens of a pack, a key -> the packs."""


class PackGroups:
    """Groups of samples that are dealt to packs. Pickled with its groups: another process need not find them again.

    Args:
        index: Index of the samples, with lengths. It is completed.
        most: Maximum number of samples per group, unless the index has a larger one.
    """

    def __init__(self, index: SourceIndex, most: int) -> None:
        index.finish()
        self.index = index
        self._starts = index.starts(0)
        starts = self._starts.tolist()
        files = index.group_files().tolist()
        firsts: list[int] = []
        for part, file in enumerate(files):
            if not firsts or file != files[firsts[-1]] or starts[part + 1] - starts[firsts[-1]] > most:
                firsts.append(part)
        self._bounds = np.array([*firsts, len(files)])  # groups of the index

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def path(self, group: int) -> str:
        """Return the path of the file containing a group."""
        return self.index.group_path(int(self._bounds[group]))

    def lengths(self, group: int) -> Ints:
        """Return the number of tokens per sample of a group."""
        return _joined([part.lengths for part in self._parts(group)])

    def labels(self, group: int) -> Ints:
        """Return the number of trained tokens per sample of a group."""
        return _joined([part.labels for part in self._parts(group)])

    def _parts(self, group: int) -> list[RecordGroup]:
        """Return the groups of the index that form a group."""
        return [self.index.group(number) for number in range(self._bounds[group], self._bounds[group + 1])]

    def record(self, group: int, sample: int, about: Any) -> Record:
        """Return a sample of a group, which is not read yet."""
        item = int(self._starts[self._bounds[group]]) + sample
        part = _last_upto(self._starts, item)
        return Record(about, self.index.group(part), item - int(self._starts[part]))

    def find(self, item: int) -> tuple[int, int]:
        """Return the group of an item of the index, and the item's number in the group."""
        group = _last_upto(self._bounds, _last_upto(self._starts, item))
        return group, item - int(self._starts[self._bounds[group]])

    def of_path(self, path: str) -> list[int]:
        """Return the items of the index in a file."""
        own = [group for group in range(len(self)) if self.path(group) == path]
        return [item for group in own for item in range(*self.bounds(group))]

    def bounds(self, group: int) -> tuple[int, int]:
        """Return the first item of the index in a group, and the one after the last."""
        first, after = self._starts[self._bounds[group : group + 2]].tolist()
        return first, after

    def extents(self, group: int) -> list[Extent]:
        """Return the bytes to fetch for a group."""
        return [extent for part in self._parts(group) for extent in part.extents()]

    def group_bytes(self) -> Ints:
        """Return the approximate size of each group in the cache."""
        self.index.finish()
        return np.add.reduceat(self.index.group_bytes(), self._bounds[:-1])


def _last_upto(values: Ints, value: int) -> int:
    """Return the place of the last of some sorted values that is not greater than a value."""
    return int(values.searchsorted(value, side="right")) - 1


def _joined(parts: list[Ints]) -> Ints:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)  # no copy per use: a group may have 8,192 samples


class PackManifest(Manifest):
    """One source whose items are packs; see ``Manifest``.

    Args:
        name: Name of the source.
        groups: Samples of the source, with their lengths.
        counts: Number of packs per group.
        fingerprint: Digest of all that the order depends on.
        limit: Maximum number of samples per epoch; None for all. It becomes the number of packs that hold so many on
            average: a pack is never cut.
        modality: Modality of the source.
    """

    def __init__(
        self, name: str, groups: PackGroups, counts: Ints, *, fingerprint: str, limit: int | None, modality: str
    ) -> None:
        self._groups = groups
        packs = int(counts.sum())
        samples = int(groups.index.starts(0)[-1])
        super().__init__(
            [name],
            [counts],
            fingerprints=[fingerprint],
            amounts={"tokens": [groups.index.tokens]},
            limits=[None if limit is None else max(1, min(limit, samples) * packs // samples)],
            modalities=[modality],
        )

    def group_name(self, source: int, group: int) -> str:  # noqa: ARG002  # there is one source
        return self._groups.path(group)


def count_packs(groups: PackGroups, capacity: int, deal: Deal, metadata: Path, about: str) -> Ints:
    """Return the number of packs per group, which is the same in every epoch.

    Args:
        groups: Groups of samples.
        capacity: Tokens per pack.
        deal: Deals items to packs.
        metadata: Folder of the metadata cache.
        about: Name of the index, and of how packs are made.
    """
    subject = ObjectVersion("packs", f"{about} {groups.index.versions_key()}", str(capacity))
    counts = MetadataCache(metadata, _COUNTS)
    kept = counts.get(subject)
    if kept is not None and len(kept) == 8 * len(groups):
        return np.frombuffer(kept, np.int64)
    each = range(len(groups))
    found = np.array([len(deal(groups.lengths(group), capacity, 0)) for group in each], dtype=np.int64)
    counts.put(subject, found.tobytes())
    return found


class PackReader(BaseReader):
    """Reads packs of one source; see ``readers.reader.Reader``.

    Args:
        manifest: Packs of the source.
        groups: Groups of samples.
        about: What recipes have to know of the source; every record has it.
        capacity: Tokens per pack.
        deal: Deals items to packs.
        seed: Seed of the run.
    """

    counted = True
    has_members = True

    def __init__(
        self, manifest: PackManifest, groups: PackGroups, about: Any, capacity: int, deal: Deal, seed: int
    ) -> None:
        self._arguments = (manifest, groups, about, capacity, deal, seed)
        self._manifest = manifest
        self._groups = groups
        self.about = about
        self._capacity = capacity
        self._deal = deal
        self._seed = seed
        self._number = next(_numbers)  # names its packs among those of all readers
        self._deals: LruCache[tuple[int, int], DealtPacks] = LruCache(_KEPT_DEALS)
        self._resident: LruCache[int, Sequence[Extent]] = LruCache(_KEPT_GROUPS)
        self._contents = RecordContents(groups.index)
        self._excluded: dict[int, dict[int, int]] = {}  # slot since which a sample is left out, by group and sample

    def __reduce__(self) -> tuple[object, ...]:
        return PackReader, self._arguments

    def members(self, name: str) -> list[int]:
        """Return the records with a name, or of a file, as items of the index."""
        path, _, row = name.rpartition(":")
        found = self._groups.index.find(path, int(row)) if row.isdecimal() else []
        return found or self._groups.of_path(name)

    def exclude(self, members: Mapping[int, int]) -> dict[int, int]:
        """Leave samples out of packs: their places become padding. Returns groups without a sample that is left."""
        self._number = next(_numbers)
        self._excluded = {}
        for item, slot in members.items():
            group, sample = self._groups.find(item)
            self._excluded.setdefault(group, {})[sample] = slot
        sizes = {group: end - start for group in self._excluded for start, end in [self._groups.bounds(group)]}
        whole = [group for group, own in self._excluded.items() if len(own) == sizes[group]]
        return {group: max(self._excluded[group].values()) for group in whole}

    def _packs(self, group: int, epoch: int) -> DealtPacks:
        def make() -> DealtPacks:
            own = key(self._seed, "packs", self._manifest.sources[0], epoch, group)
            return self._deal(self._groups.lengths(group), self._capacity, own)

        return self._deals.get_or_make((group, epoch), make)

    def _members(self, uses: Uses) -> list[tuple[Record, ...]]:
        """Return the records of each pack. They are found once per use, and kept until the batch is made."""
        return [
            _found.get_or_make((self._number, *each), partial(self._find_members, *each)) for each in self._each(uses)
        ]

    def _each(self, uses: Uses) -> Iterator[tuple[int, int, int, int]]:
        """Yield group, pack in the group, epoch and slot of each use; slot 0 if nothing of the group is excluded."""
        slots = [0] * len(uses.row) if uses.slot is None or not self._excluded else uses.slot.tolist()
        _, _, packs = self._manifest.locate(uses.row)
        each = zip(uses.group.tolist(), packs.tolist(), uses.epoch.tolist(), slots, strict=True)
        return ((group, pack, epoch, slot if group in self._excluded else 0) for group, pack, epoch, slot in each)

    def _find_members(self, group: int, pack: int, epoch: int, slot: int) -> tuple[Record, ...]:
        samples = self._samples(group, pack, epoch, slot).tolist()
        return tuple(self._groups.record(group, sample, self.about) for sample in samples)

    def _samples(self, group: int, pack: int, epoch: int, slot: int) -> Ints:
        """Return the samples of a pack in a slot of the run, by their numbers in the group."""
        samples = self._packs(group, epoch)[pack]
        since = self._excluded.get(group)
        if since is None:
            return samples
        left = [sample for sample in samples.tolist() if since.get(sample, slot + 1) > slot]
        return np.array(left, dtype=np.int64)

    def wants(self, uses: Uses) -> list[Sequence[Extent]]:
        return [[extent for record in members for extent in record.extents()] for members in self._members(uses)]

    def group_bytes(self, source: int) -> Ints:  # noqa: ARG002  # there is one source
        return self._groups.group_bytes()

    def resident(self, source: int, group: int) -> Sequence[Extent]:  # noqa: ARG002  # there is one source
        return self._resident.get_or_make(group, lambda: self._groups.extents(group))

    def locate(self, uses: Uses) -> list[tuple[Record, ...] | ContentError]:
        return list(self._members(uses))

    def read(self, places: Sequence[tuple[Record, ...]]) -> list[tuple[Record, ...] | ContentError]:
        return list(places)

    def names(self, uses: Uses) -> list[list[str]]:
        return [[str(record.row) for record in members] for members in self._members(uses)]

    def unforeseen(self) -> str | None:
        return unforeseen_media(self._manifest)

    def evidence(self) -> tuple[Evidence, ...]:
        return self._contents.evidence()

    def contents(self, uses: Uses, evidence: Evidence) -> list[str]:
        return [self._contents.of(members, evidence) for members in self._members(uses)]

    def costs(self, uses: Uses) -> Ints:
        """Return the sum of the squared lengths of the samples of each pack: what attention costs."""
        lengths = [self._groups.lengths(group)[self._samples(group, *rest)] for group, *rest in self._each(uses)]
        return np.array([int(np.square(own).sum()) for own in lengths], dtype=np.int64)

    def counts(self, uses: Uses) -> Mapping[str, Ints]:
        """Return the number of trained tokens per use."""
        found = [
            int(self._groups.labels(group)[self._samples(group, *rest)].sum()) for group, *rest in self._each(uses)
        ]
        return {"label_tokens": np.array(found, dtype=np.int64)}

    def find(self, name: str, epoch: int) -> list[int]:
        """Return the rows of the packs that hold a record in an epoch."""
        path, _, row = name.rpartition(":")
        if not row.isdecimal():
            return []
        return [self.pack_of(item, epoch) for item in self._groups.index.find(path, int(row))]

    def pack_of(self, member: int, epoch: int) -> int:
        """Return the row of the pack that holds an item of the index in an epoch."""
        group, sample = self._groups.find(member)
        pack = int(self._packs(group, epoch).of(np.array([sample]))[0])
        return int(self._manifest.rows(0, group, pack))

    def close(self) -> None:
        self._groups.index.close()
