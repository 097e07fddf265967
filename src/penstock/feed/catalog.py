"""All parts of a run as one: numbers sources and rows over all of them. Knows no file format.

row = number of the part in the high bits, row in the part's manifest in the low bits
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from penstock.config import ConfigError
from penstock.pipelines.pipeline import Part
from penstock.plan.draws import Ints, key, ranges, words
from penstock.plan.growing import Growing
from penstock.plan.order import Planned
from penstock.readers.reader import Evidence, Reader, Uses, optional_methods
from penstock.recipes.recipe import Item
from penstock.store.extents import Extent

_ROW_BITS = 48
_ROW_MASK = (1 << _ROW_BITS) - 1

Totals = dict[int, dict[str, int | float]]
"""Planned sums over a global batch, by number of the part and name."""


class PartShare(NamedTuple):
    """The samples of one part among some planned samples.

    Attributes:
        part: Number of the part.
        at: Indices of its samples among the planned ones.
        uses: Uses of its items, for the reader.
        items: The same items, for the recipe.
    """

    part: int
    at: Ints
    uses: Uses
    items: list[Item]


class Catalog:
    """Translates the integers of the plan into items of the parts.

    Args:
        parts: Parts of the run.
        seed: Seed of the run.

    Attributes:
        parts: Parts of the run.
        sources: Names of the sources, in the order of the plan.
        fingerprints: One fingerprint per source.
        starts: First sample of the run that may draw from each source.
        amounts: Amounts per source, by unit that any source has; 0 if unknown.
        limits: Maximum number of items per epoch of each source; None for no limit.
        modalities: Modality of each source; empty for none.
    """

    def __init__(self, parts: Sequence[Part], seed: int) -> None:
        self.parts = tuple(parts)
        self.sources = tuple(name for part in parts for name in part.source_names)
        self.fingerprints = tuple(each for part in parts for each in part.manifest.fingerprints)
        self.starts = tuple(part.at for part in parts for _ in part.source_names)
        self.limits = tuple(limit for part in parts for limit in part.manifest.limits)
        self.modalities = tuple(modality for part in parts for modality in part.manifest.modalities)
        self._check_names()
        counts = [len(part.manifest.sources) for part in parts]
        self._part_of = np.repeat(np.arange(len(parts)), counts)  # part of each source
        self._first = np.cumsum(counts) - counts  # first source of each part
        self.amounts = self.amounts_at(max(self.starts))
        self._keys = np.array([key(seed, "sample", name) for name in self.sources], dtype=np.uint64)

    def amounts_at(self, sample: int) -> dict[str, list[int]]:
        """Return the amounts per source, by unit that any source of a sample has; 0 if unknown or of a later source."""
        known = [part.manifest.amounts if part.at <= sample else {} for part in self.parts]
        none = [(0,) * len(part.source_names) for part in self.parts]
        return {
            unit: [n for own, nothing in zip(known, none, strict=True) for n in own.get(unit, nothing)]
            for unit in sorted(set().union(*known))
        }

    def _check_names(self) -> None:
        twice = [name for name, count in Counter(self.sources).items() if count > 1]
        if twice:
            raise ConfigError(f"sources: two of them are named {twice[0]!r}; give one of the entries another `name`")

    def group_sizes(self, source: int) -> Ints:
        """Return the number of items of each group of a source, as far as the groups are known."""
        part, number = self._of_source(source)
        return part.manifest.group_sizes(number)

    def growing(self, source: int) -> Growing | None:
        """Return the index of a source if it is still being made."""
        part, _ = self._of_source(source)
        return part.manifest.growing

    def pool(self, source: int) -> int | None:
        """Return the pool that the manifest of a source sets for ``pool: auto``, if any."""
        return self._of_source(source)[0].manifest.pool

    def same_part(self, source: int, other: int) -> bool:
        """Return whether two sources belong to one part."""
        return bool(self._part_of[source] == self._part_of[other])

    def first_source(self, part: int) -> int:
        """Return the number of the first source of a part."""
        return int(self._first[part])

    def reader(self, part: int) -> Reader[Any, Any]:
        return self.parts[part].reader

    def shares(self, planned: Planned) -> list[PartShare]:
        """Split planned samples by part. Padding is left out. Reads no data."""
        real = np.flatnonzero(planned.item >= 0)
        if len(self.parts) == 1:
            return [self._share(0, planned, real)]
        part = self._part_of[planned.source[real]]
        return [self._share(int(number), planned, real[part == number]) for number in np.unique(part)]

    def totals(self, planned: Planned, ends: Ints) -> list[Totals]:
        """Sum up what readers count, for each of several global batches.

        Args:
            planned: Batches, concatenated.
            ends: End of each batch.
        """
        nothing: Totals = {number: dict.fromkeys(names, 0) for number, names in self.counted.items()}
        found: list[Totals] = [dict(nothing) for _ in ends]
        part = self._parts_in(planned)
        for number in self.counted.keys() & part.tolist():
            at = np.flatnonzero(part == number)
            for name, counts in self._counts(number, planned, at).items():
                sums = np.diff(np.concatenate([[0], np.cumsum(counts)])[np.searchsorted(at, ends)], prepend=0)
                for each, total in zip(found, sums.tolist(), strict=True):
                    each[number] = {**each[number], name: total}
        return found

    def costs(self, planned: Planned) -> Ints:
        """Return what each item costs a model; 0 for padding. All readers know it."""
        costs = np.zeros(len(planned.item), dtype=np.int64)
        part = self._parts_in(planned)
        for number in range(len(self.parts)):
            at = np.flatnonzero(part == number)
            costs[at] = self.costs_of(number, self._uses(number, planned, at))
        return costs

    def costs_of(self, part: int, uses: Uses) -> Ints:
        """Return what items of one part cost a model.

        Raises:
            ConfigError: If the reader does not know it.
        """
        found = optional_methods(self.reader(part)).costs(uses)
        if found is None:
            name = self.parts[part].name or self.parts[part].recipe
            raise ConfigError(f"balance: only packs are dealt by cost, and {name} has none; set chat: {{pack: true}}")
        return found

    @cached_property
    def counted(self) -> dict[int, list[str]]:
        """Names of what readers count, by number of the part."""
        none = np.zeros(0, dtype=np.int64)
        nothing = Planned(none, none, none, none, none, none)
        found = {number: list(self._counts(number, nothing, none)) for number in range(len(self.parts))}
        return {number: names for number, names in found.items() if names}

    def _counts(self, number: int, planned: Planned, at: Ints) -> Mapping[str, Ints]:
        reader = optional_methods(self.reader(number))
        return reader.counts(self._uses(number, planned, at)) if reader.counted else {}

    def _share(self, number: int, planned: Planned, at: Ints) -> PartShare:
        uses = self._uses(number, planned, at)
        source = planned.source[at]
        names = [self.sources[each] for each in source.tolist()]
        run_rows = (uses.row + (number << _ROW_BITS)).tolist()
        items = list(map(Item, run_rows, self.reader(number).names(uses), names, uses.draw.tolist()))
        return PartShare(number, at, uses, items)

    def _uses(self, number: int, planned: Planned, at: Ints) -> Uses:
        manifest = self.parts[number].manifest
        columns = (planned.source, planned.group, planned.item, planned.epoch, planned.repeat)
        source, group, item, epoch, repeat = (column[at] for column in columns)
        own = source - self._first[number]
        rows = manifest.rows(own, group, item)
        # The row in the part, not in the run: samples of a source do not depend on the other parts.
        draws = words(words(words(self._keys[source], rows), epoch), repeat)
        return Uses(own, group, rows, epoch, repeat, draws, planned.slot[at])

    def _parts_in(self, planned: Planned) -> Ints:
        """Return the part of each planned sample, -1 for padding."""
        return np.where(planned.item >= 0, self._part_of[planned.source], -1)

    def rows(self, planned: Planned) -> list[int]:
        """Return the rows of planned samples, -1 for padding."""
        rows = np.full(len(planned.item), -1, dtype=np.int64)
        part = self._parts_in(planned)
        for number in range(len(self.parts)):
            at = part == number
            own = planned.source[at] - self._first[number]
            rows[at] = self.parts[number].manifest.rows(own, planned.group[at], planned.item[at])
            rows[at] += number << _ROW_BITS
        return rows.tolist()

    def ids(self, planned: Planned) -> list[str]:
        """Return the ids of planned samples as strings, empty for padding."""
        ids = [""] * len(planned.item)
        for share in self.shares(planned):
            for at, item in zip(share.at.tolist(), share.items, strict=True):
                ids[at] = item.name()
        return ids

    def locate(self, rows: ArrayLike) -> list[tuple[int, int, int]]:
        """Return source, group in the source and item in the group of each row."""
        return [(source, group, item) for source, group, item in self._located(rows).T.tolist()]

    def _located(self, rows: ArrayLike) -> Ints:
        """Return source, group and item of each row, shape (3, n)."""
        rows = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        found = np.empty((3, len(rows)), dtype=np.int64)
        part = rows >> _ROW_BITS
        for number in np.unique(part).tolist():
            here = part == number
            found[:, here] = self.parts[number].manifest.locate(rows[here] & _ROW_MASK)
            found[0, here] += self._first[number]
        return found

    def group_name(self, source: int, group: int) -> str:
        part, number = self._of_source(source)
        return part.manifest.group_name(number, group)

    def groups_named(self, names: Collection[str]) -> dict[str, list[tuple[int, int]]]:
        """Return source and group of every group with one of some names, by name. Walks over all groups."""
        found: dict[str, list[tuple[int, int]]] = {}
        for source in range(len(self.sources) if names else 0):
            for group in range(len(self.group_sizes(source))):
                name = self.group_name(source, group)
                if name in names:
                    found.setdefault(name, []).append((source, group))
        return found

    def group_names(self, rows: Iterable[int]) -> list[str]:
        """Return the name of the group of each row."""
        return [self.group_name(source, group) for source, group, _ in self.locate(list(rows))]

    def item_name(self, row: int, epoch: int, slot: int = 0) -> str:
        """Return ``group:id`` of an item, as it comes in a slot of the run."""
        [(source, group, item)] = self.locate([row])
        only = [np.array([number]) for number in (slot, source, epoch, 0, group, item)]
        return f"{self.group_name(source, group)}:{self.ids(Planned(*only))[0]}"

    def item_names(self, planned: Planned) -> list[str]:
        """Return ``group:id`` of planned samples, empty for padding."""
        groups = zip(
            planned.source.tolist(), planned.group.tolist(), self.ids(planned), planned.item.tolist(), strict=True
        )
        return [f"{self.group_name(source, group)}:{name}" if item >= 0 else "" for source, group, name, item in groups]

    def find(self, name: str, epoch: int = 0) -> list[int]:
        """Return the rows whose id or ``group:id`` is ``name`` in an epoch."""
        return [row for number in range(len(self.parts)) for row in self.find_in(number, name, epoch)]

    def find_in(self, part: int, name: str, epoch: int = 0) -> list[int]:
        """Return the rows of one part whose id or ``group:id`` is ``name`` in an epoch."""
        return [row + (part << _ROW_BITS) for row in self.reader(part).find(name, epoch)]

    def pack_of(self, part: int, member: int, epoch: int) -> int:
        """Return the row of the pack that holds a sample in an epoch."""
        return optional_methods(self.reader(part)).pack_of(member, epoch) + (part << _ROW_BITS)

    def all_ids(self, source: int, at_once: int) -> Iterator[tuple[str, str]]:
        """Yield the id of every item of a source, with its ``group:id``.

        Args:
            source: Number of the source.
            at_once: About how many items to look up at a time.
        """
        sizes = self.group_sizes(source)
        ends = np.cumsum(sizes)
        for groups in np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(ends // at_once)) + 1):
            group = np.repeat(groups, sizes[groups])
            none = np.zeros_like(group)
            planned = Planned(none, none + source, none, none, group, ranges(sizes[groups]))
            names = [self.group_name(source, each) for each in groups.tolist()]
            in_groups = np.repeat(np.arange(len(groups)), sizes[groups]).tolist()
            for id, number in zip(self.ids(planned), in_groups, strict=True):
                yield id, f"{names[number]}:{id}"

    def evidence(self, part: int) -> Sequence[Evidence]:
        """Return what is known of the content of a part's items, strongest first; see ``BaseReader.evidence``."""
        return optional_methods(self.reader(part)).evidence()

    def contents(self, share: PartShare, evidence: Evidence) -> Sequence[str]:
        """Return what identifies the content of each sample; see ``BaseReader.contents``."""
        return optional_methods(self.reader(share.part)).contents(share.uses, evidence)

    def wants(self, shares: Iterable[PartShare]) -> list[Extent]:
        """Return the bytes that samples need, in the order of the batch."""
        found: list[tuple[int, Sequence[Extent]]] = []
        for share in shares:
            found += zip(share.at.tolist(), self.reader(share.part).wants(share.uses), strict=True)
        found.sort(key=lambda pair: pair[0])
        return [extent for _, extents in found for extent in extents]

    def resident(self, source: int, group: int) -> Sequence[Extent]:
        """Return the extents to fetch or pin while a group is resident."""
        part, number = self._of_source(source)
        return part.reader.resident(number, group)

    def open_stores(self) -> None:
        """Open the stores of all sources."""
        for source in range(len(self.sources)):
            self.resident(source, 0)  # an extent names its open store

    def group_bytes(self, source: int) -> list[int] | None:
        """Return about how many bytes each group of a source takes in the cache; None if its reader does not know."""
        part, number = self._of_source(source)
        found = optional_methods(part.reader).group_bytes(number)
        return None if found is None else found.tolist()

    def recipes(self) -> dict[str, list[int]]:
        """Return the numbers of the parts of each recipe."""
        found: dict[str, list[int]] = {}
        for number, part in enumerate(self.parts):
            found.setdefault(part.recipe, []).append(number)
        return found

    def count(self, rows: ArrayLike) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Return the number of samples per source and per group, by name. Rows of padding, -1, do not count."""
        source, group, _ = self._located(_real(rows))
        pairs, counts = np.unique((source << _ROW_BITS) + group, return_counts=True)
        sources: Counter[str] = Counter()
        groups: Counter[str] = Counter()
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            number = pair >> _ROW_BITS
            sources[self.sources[number]] += count
            groups[self.group_name(number, pair & _ROW_MASK)] += count
        return sources, groups

    def _of_source(self, source: int) -> tuple[Part, int]:
        number = int(self._part_of[source])
        return self.parts[number], source - int(self._first[number])

    def close(self) -> None:
        for part in self.parts:
            part.reader.close()


def _real(rows: ArrayLike) -> Ints:
    """Return rows without padding."""
    found = np.atleast_1d(np.asarray(rows, dtype=np.int64))
    return found[found >= 0]
