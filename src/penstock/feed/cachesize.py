"""Checks that the node cache is large enough for what a run uses at once. Knows sizes of groups, and no order."""

import math
from collections.abc import Mapping

import numpy as np

from penstock.config import ConfigError
from penstock.feed.catalog import Catalog
from penstock.feed.mixing import Changes
from penstock.feed.pooling import Pool, residents_of
from penstock.plan.excluding import Excluded
from penstock.runtime.daemons import DaemonPool
from penstock.store.cache.admission import CacheTooSmall
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.store import CacheBackedStore
from penstock.store.extents import Unit

_MAX_REQUESTED_SIZES = 1_000  # groups of a source, one after another


def require_room(
    cache: NodeCache,
    catalog: Catalog,
    changes: Changes,
    pool: Pool,
    excluded: Mapping[int, Excluded],
    window: int,
) -> None:
    """Check at the start of a run that the cache can hold all resident groups and the next one to enter.

    Uses exact sizes if they are known, as from an index, and otherwise the size of the first group of each source. If
    that does not fit, all sizes are requested from the stores, so that the error names a sufficient size.

    Args:
        cache: Node cache of the run.
        catalog: Parts of the run.
        changes: Mixtures of the run; empty for a finite run.
        pool: Pool of the run.
        excluded: Excluded items by number of the source. Groups that are excluded whole may no longer exist.
        window: Samples per window and lane of batches by length, whose groups are used until its end; 0 for batches
            of a fixed size.

    Raises:
        ConfigError: If the cache is too small.
    """
    residents = residents_of(pool, changes, len(catalog.sources))
    drawn = [i for i in range(len(catalog.sources)) if not changes or any(counts[i] for _, counts in changes)]
    kept = [residents[source] + _groups_of_windows(catalog, changes, source, window) for source in drawn]

    def needed(max_requested: int) -> int:
        with DaemonPool(16, "penstock-sizes") as threads:  # sizes may have to be requested from stores
            sizes = list(
                threads.map(lambda source: _group_bytes(catalog, source, max_requested, excluded.get(source)), drawn)
            )
        if not changes:  # a finite run: one pool over all sources
            sizes = [[size for each in sizes for size in each]]
        counts = kept[: len(sizes)]
        resident = sum(sum(sorted(each, reverse=True)[:count]) for each, count in zip(sizes, counts, strict=True))
        return resident + max((size for each in sizes for size in each), default=0)

    try:
        try:
            cache.require(needed(1))
        except CacheTooSmall:
            cache.require(needed(_MAX_REQUESTED_SIZES))
    except CacheTooSmall as error:
        raise ConfigError(f"cache.size: {error}, or the run a smaller pool than {pool}") from None


def _groups_of_windows(catalog: Catalog, changes: Changes, source: int, samples: int) -> int:
    """Return the number of groups of a source that enter during two windows: groups of a window stay until its end.

    Args:
        catalog: Parts of the run.
        changes: Mixtures of the run; empty for a finite run, whose sources have one pool.
        source: Number of the source.
        samples: Samples per window and lane.
    """
    if not samples:  # also where no group is known yet
        return 0
    if not changes:
        sizes = np.concatenate([catalog.group_sizes(each) for each in range(len(catalog.sources))])
        return math.ceil(2 * samples / float(sizes.mean()))
    share = max(counts[source] / sum(counts) for _, counts in changes)
    return math.ceil(2 * samples * share / float(catalog.group_sizes(source).mean()))


def _group_bytes(catalog: Catalog, source: int, max_requested: int, excluded: Excluded | None) -> list[int]:
    """Return the bytes of each group of a source in the cache. A unit of several groups counts for the first of them.

    Args:
        catalog: Parts of the run.
        source: Number of the source.
        max_requested: Maximum number of groups whose sizes are requested. The first size is assumed for the others.
        excluded: Excluded items of the source; None if there are none.
    """
    known = catalog.group_bytes(source)
    if known is not None:
        return known
    found = []
    seen: set[Unit] = set()
    typical = 0
    requested = 0
    for group in range(len(catalog.group_sizes(source))):
        if excluded is not None and excluded.is_ever_whole(group):
            continue
        units = [extent.unit for extent in catalog.resident(source, group)]
        new = {unit: unit.store for unit in units if unit not in seen}
        seen |= new.keys()
        cached = {unit: store for unit, store in new.items() if isinstance(store, CacheBackedStore)}
        sizes = [store.known_size(unit.path, unit.within) for unit, store in cached.items()]
        if requested < max_requested and (None in sizes or not requested):
            learnt = [store.resolve_size(unit.path, unit.within) for unit, store in cached.items()]
            typical = typical or sum(learnt)
            sizes = [*learnt]
            requested += 1
        if sizes:
            found.append(typical if None in sizes else sum(size or 0 for size in sizes))
    return found
