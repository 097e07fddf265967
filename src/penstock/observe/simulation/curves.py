"""How the bytes and requests of a group grow with the share of its items that was used. Knows no cache."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.feed.catalog import Catalog
from penstock.plan.draws import Ints, permutation
from penstock.plan.order import Planned
from penstock.store.cache.policy import missing_runs
from penstock.store.cache.store import CacheBackedStore
from penstock.store.extents import Extent, Unit

_POINTS = 33
_GROUPS = 3  # of each source, that stand for the others
_MAX_ITEMS = 4_096  # of a group, that stand for the others

Floats = npt.NDArray[np.float64]


class GroupCurve(NamedTuple):
    """What a group of a source takes, after a share of its items in random order.

    Attributes:
        used: Shares of items.
        fetched: Share of the group's bytes that was fetched.
        requests: Requests per byte of the group.
        at_once: Whether a group is fetched as a whole when it becomes resident.
    """

    used: Floats
    fetched: Floats
    requests: Floats
    at_once: bool

    def bytes_at(self, used: Floats, size: int) -> Floats:
        """Return the bytes that were fetched after shares of the items."""
        return np.interp(used, self.used, self.fetched) * size

    def requests_at(self, used: Floats, size: int) -> Floats:
        """Return the requests after shares of the items."""
        return np.interp(used, self.used, self.requests) * size


def measure_source(catalog: Catalog, source: int, part_bytes: int) -> GroupCurve:
    """Measure some groups of a source: the extents of all their items, in a random order."""
    count = len(catalog.group_sizes(source))
    groups = sorted({0, count // 2, count - 1})[:_GROUPS]
    measured = [_measure(catalog, source, group, part_bytes) for group in groups]
    used = np.linspace(0, 1, _POINTS)
    at_once = all(each[2] for each in measured)
    fetched = np.mean([each[0] for each in measured], axis=0)
    requests = np.mean([each[1] for each in measured], axis=0)
    return GroupCurve(used, fetched, requests, at_once)


def group_units(catalog: Catalog, source: int, group: int) -> dict[Unit, int]:
    """Return the units of a group, with their sizes."""
    units = dict.fromkeys(extent.unit for extent in catalog.resident(source, group))
    return {unit: _unit_size(unit) for unit in units}


def _unit_size(unit: Unit) -> int:
    return unit.store.resolve_size(unit.path, unit.within) if isinstance(unit.store, CacheBackedStore) else 0


def _measure(catalog: Catalog, source: int, group: int, part_bytes: int) -> tuple[Floats, Floats, bool]:
    """Return the share of the bytes and the requests per byte at each point, and whether it is fetched at once."""
    sizes = group_units(catalog, source, group)
    total = max(1, sum(sizes.values()))
    resident = catalog.resident(source, group)
    have = {unit: bytearray(-(-size // part_bytes)) for unit, size in sizes.items()}
    if resident and all(extent.start != extent.end for extent in resident):
        requests = sum(_fetch(have, sizes, extent, part_bytes) for extent in resident)
        return np.ones(_POINTS), np.full(_POINTS, requests / total), True
    items = int(catalog.group_sizes(source)[group])
    order = permutation(group, items)[:_MAX_ITEMS]
    extents = _wants(catalog, source, group, order)
    points = np.linspace(0, len(extents), _POINTS).astype(int)
    fetched = [0.0]
    requests_so_far = [0.0]
    requests = 0
    for low, high in zip(points[:-1].tolist(), points[1:].tolist(), strict=True):
        for extent in (each for own in extents[low:high] for each in own):
            if extent.unit not in sizes:
                sizes[extent.unit] = _unit_size(extent.unit)
                have[extent.unit] = bytearray(-(-sizes[extent.unit] // part_bytes))
            requests += _fetch(have, sizes, extent, part_bytes)
        fetched.append(sum(_present(own, sizes[unit], part_bytes) for unit, own in have.items()) / total)
        requests_so_far.append(requests / total)
    scale = items / max(1, len(extents))  # of a group that is measured in part
    return np.minimum(1.0, np.array(fetched) * scale), np.array(requests_so_far) * scale, False


def _wants(catalog: Catalog, source: int, group: int, items: Ints) -> list[list[Extent]]:
    none = np.zeros_like(items)
    planned = Planned(none, none + source, none, none, none + group, items)
    [share] = catalog.shares(planned)
    return [list(each) for each in catalog.reader(share.part).wants(share.uses)]


def _fetch(have: dict[Unit, bytearray], sizes: dict[Unit, int], extent: Extent, part_bytes: int) -> int:
    """Mark the parts of an extent. Returns the number of requests."""
    unit, start, end = extent
    end = sizes[unit] if end is None else min(end, sizes[unit])
    if start >= end:
        return 0
    first = start // part_bytes
    last = -(-end // part_bytes)
    requests = sum(1 for _ in missing_runs(have[unit][first:last], first, part_bytes))
    have[unit][first:last] = b"\1" * (last - first)
    return requests


def _present(have: bytearray, size: int, part_bytes: int) -> int:
    short = len(have) * part_bytes - size if have[-1:] == b"\1" else 0
    return have.count(1) * part_bytes - short
