"""Units of the cache and byte ranges of them. Knows objects and ranges; not why they are needed."""

from collections.abc import Iterable
from typing import NamedTuple

from penstock.store.blob import ByteRange, Store


class Unit(NamedTuple):
    """What is cached and evicted as one: an object of a store, or a range of it.

    All users of an object name the same ranges, which do not overlap, so that no byte is fetched twice.

    Examples:
        >>> from pathlib import Path
        >>> import penstock
        >>> from penstock.store.local import LocalStore
        >>> unit = penstock.Unit(LocalStore(Path("shards")), "bengali-0.tar", (512, 1024))
        >>> unit.store.open(unit.path, unit.within).size
        512
    """

    store: Store
    path: str
    within: ByteRange | None = None


class Extent(NamedTuple):
    """Bytes ``start`` to ``end`` (exclusive) of a unit, counted from the unit's first byte.

    ``end`` is None for "to the end of the unit", also where its size is not known yet. ``start == end`` means no bytes:
    the unit is only pinned.

    Examples:
        >>> from pathlib import Path
        >>> import penstock
        >>> from penstock.store.local import LocalStore
        >>> unit = penstock.Unit(LocalStore(Path("shards")), "bengali-0.tar")
        >>> header = penstock.Extent(unit, 0, 512)
        >>> only_pinned = penstock.Extent(unit, 0, 0)
    """

    unit: Unit
    start: int
    end: int | None = None


def joined(extents: Iterable[Extent], grain: int) -> list[Extent]:
    """Merge extents of the same unit that are adjacent or share an aligned block of ``grain`` bytes."""
    by_unit: dict[Unit, list[Extent]] = {}
    for extent in extents:
        by_unit.setdefault(extent.unit, []).append(extent)
    found: list[Extent] = []
    for unit, own in by_unit.items():
        own.sort(key=lambda extent: extent.start)
        start, end = own[0][1:]
        for extent in own[1:]:
            if end is None or extent.start // grain * grain <= -(-end // grain) * grain:
                end = None if end is None or extent.end is None else max(end, extent.end)
            else:
                found.append(Extent(unit, start, end))
                start, end = extent[1:]
        found.append(Extent(unit, start, end))
    return found
