"""Finds the items that ``exclude`` names. Knows ids and names of groups; knows nothing of the order of a run."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from penstock.config import ConfigError, ExcludeConfig
from penstock.feed.catalog import Catalog
from penstock.manifest.manifest import fingerprint
from penstock.plan.excluding import Excluded
from penstock.readers.reader import optional_methods

Located = tuple[int, int, int]
"""Source, group in the source, item in the group."""


class Exclusions(NamedTuple):
    """Everything that a run excludes.

    Attributes:
        items: Excluded items by number of the source; ``since`` counts slots of the run.
        members: Samples that are left out of packs, by number of the part: the first such slot, by number.
        changes: (first sample, digest of what is excluded from it on), in order.
    """

    items: Mapping[int, Excluded]
    members: Mapping[int, Mapping[int, int]]
    changes: tuple[tuple[int, str], ...]

    def ends_in_packs(self, name: str, catalog: Catalog) -> list[int | None]:
        """Return the slot since which each sample with a name is left out of its pack; None if it never is."""
        ends: list[int | None] = []
        for part in range(len(catalog.parts)):
            own = self.members.get(part)
            if own is None:
                ends += [None] * len(catalog.find_in(part, name))
            else:
                ends += [own.get(member) for member in optional_methods(catalog.reader(part)).members(name)]
        return ends


class Named(NamedTuple):
    """What some names stand for.

    Attributes:
        items: Items, by source, group and item.
        members: Samples of packs, as pairs of part and number.
    """

    items: set[Located]
    members: set[tuple[int, int]]


def find_exclusions(entries: Sequence[ExcludeConfig], catalog: Catalog) -> Exclusions:
    """Find what a run excludes, and tell it to readers of packs.

    Raises:
        ConfigError: If a name is unknown.
    """
    items: dict[Located, int] = {}
    members: dict[int, dict[int, int]] = {}
    for entry in sorted(entries, key=lambda entry: entry.at):
        named, unknown = find_named(entry.items, catalog)
        if unknown:
            raise ConfigError(f"exclude: no source has an item or a group named {', '.join(map(repr, unknown[:5]))}")
        items = dict.fromkeys(named.items, entry.at) | items
        for part, number in named.members:
            members.setdefault(part, {}).setdefault(number, entry.at)
    for part in range(len(catalog.parts)):
        reader = optional_methods(catalog.reader(part))
        if reader.has_members:
            empty = reader.exclude(members.get(part, {}))
            source = catalog.first_source(part)
            items |= {each: at for group, at in empty.items() for each in _items_of(source, group, catalog)}
    found = _by_source(items, catalog)
    return Exclusions(found, members, tuple(_changes(found, members, catalog)))


def find_named(names: Iterable[str], catalog: Catalog) -> tuple[Named, list[str]]:
    """Find all items with some names: ids, ``group:id``, or names of groups.

    Returns:
        What was found, and the names that were not.
    """
    found = Named(set(), set())
    others: set[str] = set()
    whole: set[tuple[int, str]] = set()  # sources and names of groups whose items are only excluded together
    asked = list(names)
    for name in asked:
        in_parts = [_add_items(found, whole, part, name, catalog) for part in range(len(catalog.parts))]
        if not any(in_parts):
            others.add(name)
    groups = catalog.groups_named(others | {name for _, name in whole})
    for name, pairs in groups.items():
        for source, group in pairs:
            if name in others or (source, name) in whole:
                found.items.update(_items_of(source, group, catalog))
    return found, [name for name in asked if name in others and name not in groups]


def _add_items(found: Named, whole: set[tuple[int, str]], part: int, name: str, catalog: Catalog) -> bool:
    """Add the items of a part with an id. Returns whether there are any."""
    reader = optional_methods(catalog.reader(part))
    if reader.has_members:
        members = [(part, member) for member in reader.members(name)]
        found.members.update(members)
        return bool(members)
    located = catalog.locate(catalog.find_in(part, name))
    if reader.shows_neighbours:
        whole.update((source, catalog.group_name(source, group)) for source, group, _ in located)
    else:
        found.items.update(located)
    return bool(located)


def _items_of(source: int, group: int, catalog: Catalog) -> Iterable[Located]:
    return ((source, group, item) for item in range(int(catalog.group_sizes(source)[group])))


def _by_source(items: Mapping[Located, int], catalog: Catalog) -> dict[int, Excluded]:
    """Return the excluded items of each source that has some, in order."""
    columns = np.array(sorted((*located, at) for located, at in items.items()), dtype=np.int64).reshape(-1, 4).T
    sources, starts = np.unique(columns[0], return_index=True)
    parts = np.split(columns[1:], starts[1:], axis=1)
    return {
        source: Excluded(group, item, since, catalog.group_sizes(source))
        for source, (group, item, since) in zip(sources.tolist(), parts, strict=False)
    }


def _changes(
    items: Mapping[int, Excluded], members: Mapping[int, Mapping[int, int]], catalog: Catalog
) -> Iterable[tuple[int, str]]:
    """Yield the samples at which something is excluded, each with a digest of it.

    A digest does not depend on what is excluded at other samples: a later entry leaves earlier states valid.
    """
    starts = {at for each in items.values() for at in each.since.tolist()}
    starts |= {at for each in members.values() for at in each.values()}
    for start in sorted(starts):
        parts: list[object] = []
        for source, excluded in items.items():
            own = np.flatnonzero(excluded.since == start)
            if len(own):
                parts += [catalog.sources[source], excluded.group[own], excluded.item[own]]
        for number, each in members.items():
            if left_out := sorted(member for member in each if each[member] == start):
                parts += [catalog.parts[number].source_names, left_out]
        yield start, fingerprint(*parts)
