"""Fills the node cache with the data of some steps before a run makes them."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from penstock.feed.feed import Feed
from penstock.feed.lookup import Lookup
from penstock.feed.steps import Steps
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.prefetch import Prefetcher
from penstock.store.cache.store import CacheBackedStore, cached_extents
from penstock.store.extents import Extent, Unit

_LOOK_AGAIN_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Warmed:
    """The result of warming.

    Attributes:
        steps: Number of steps whose data are in the cache.
        bytes_fetched: Number of bytes that were downloaded.
    """

    steps: int
    bytes_fetched: int


def warm(feed: Feed, steps: range, progress: Callable[[int, int], None]) -> Warmed:
    """Fetch what the feed's rank reads in some steps, in order, as far as the cache holds it at once.

    Args:
        feed: Feed of the run.
        steps: Steps to fetch.
        progress: Function that is called with the bytes fetched so far and the total.

    Raises:
        ValueError: If all stores are local folders.
        CacheTooSmall: If the cache cannot hold the first step.
    """
    cache = feed.open_stores()
    if cache is None:
        raise ValueError("all stores of this run are local folders, read in place: there is nothing to warm")
    how = feed.config.prefetch
    prefetcher = Prefetcher(cache, how.concurrency, how.bandwidth)
    before = _fetched(cache)
    known: list[Extent] | None = None
    extents, done = _fitting(feed, cache, steps)
    try:
        while extents != known:  # from metadata that arrived, readers learn which bytes come next
            total = _fetched(cache) - before + _missing(cache, extents)
            _fetch(prefetcher, extents, partial(_report, cache, before, total, progress))
            known = extents
            extents, done = _fitting(feed, cache, steps)
    finally:
        prefetcher.close()
    return Warmed(done, _fetched(cache) - before)


def _fetched(cache: NodeCache) -> int:
    return cache.counters.mine().bytes_fetched


def _report(cache: NodeCache, before: int, total: int, progress: Callable[[int, int], None]) -> None:
    progress(_fetched(cache) - before, total)


def _fetch(prefetcher: Prefetcher, extents: list[Extent], look: Callable[[], None]) -> None:
    """Fetch what is missing of some extents. ``look`` is called every 0.1 s, and at the end."""
    failed: list[Exception] = []
    drained = threading.Thread(target=_drain, args=(prefetcher, failed), daemon=True)
    prefetcher.want(extents)
    drained.start()
    while drained.is_alive():
        look()
        drained.join(_LOOK_AGAIN_SECONDS)
    look()  # however soon it was over
    if failed:
        raise failed[0]


def _drain(prefetcher: Prefetcher, failed: list[Exception]) -> None:
    try:
        prefetcher.drain()
    except Exception as error:
        failed.append(error)


def _fitting(feed: Feed, cache: NodeCache, steps: range) -> tuple[list[Extent], int]:
    """Return the extents of as many steps as the cache holds at once, and the number of these steps."""
    walked = Steps(steps.start, steps.stop)
    lookup = Lookup(feed.plan, feed.catalog, feed.rank, feed.world, feed.timeline(feed.world), walked)
    found: list[Extent] = []
    sizes: dict[Unit, int] = {}
    for done, step in enumerate(walked):
        wants = cached_extents(feed.catalog.wants(lookup.at(step).shares))
        lookup.done(step)
        sizes |= {extent.unit: _size(extent.unit) for extent in wants if extent.unit not in sizes}
        if done == 0:
            cache.require(sum(sizes.values()))
        elif sum(sizes.values()) > cache.max_bytes:
            return found, done
        found += wants
    return found, len(steps)


def _size(unit: Unit) -> int:
    assert isinstance(unit.store, CacheBackedStore)
    return unit.store.resolve_size(unit.path, unit.within)


def _missing(cache: NodeCache, extents: list[Extent]) -> int:
    """Return the bytes that are not in the cache yet, in whole parts."""
    ranges: dict[Unit, list[Extent]] = {}
    for extent in extents:
        ranges.setdefault(extent.unit, []).append(extent)
    return sum(_missing_of(cache, unit, wanted) for unit, wanted in ranges.items())


def _missing_of(cache: NodeCache, unit: Unit, wanted: list[Extent]) -> int:
    assert isinstance(unit.store, CacheBackedStore)
    blob = unit.store.open(unit.path, unit.within)
    try:
        parts = {
            part
            for extent in wanted
            for first, last in blob.missing(extent.start, blob.size if extent.end is None else extent.end)
            for part in range(first, last)
        }
        return sum(min(cache.part_bytes, blob.size - part * cache.part_bytes) for part in parts)
    finally:
        blob.close()
