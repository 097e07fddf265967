"""Filling the node cache for some steps before they are made: the dry run of a training."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from penstock.feed import Feed
from penstock.feed.ahead import needed
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.prefetch import Prefetcher, Want

_LOOK_AGAIN_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Warmed:
    """Steps whose bytes are in the cache now, and how many bytes came for them."""

    steps: int
    bytes_fetched: int


def warm(feed: Feed, steps: range, progress: Callable[[int, int], None]) -> Warmed:
    """Fetch what this node's ranks read in these steps, in that order, as far as the cache holds it at once.

    ``progress`` is called with bytes fetched so far and in all. A cache that can't hold the first step is refused.
    """
    store = feed.store
    if not isinstance(store, CachedStore):
        raise ValueError(f"store: {feed.config.store} is a local folder, read in place: there is nothing to warm")
    wants, done = _fitting(feed, store, steps)
    prefetch = feed.config.prefetch
    prefetcher = Prefetcher(store, prefetch.concurrency, prefetch.bandwidth)
    total, before = _missing(store, wants), store.cache.counters.mine().bytes_fetched
    failed: list[Exception] = []
    drained = threading.Thread(target=_drain, args=(prefetcher, failed), daemon=True)
    prefetcher.want(wants)
    drained.start()
    while drained.is_alive():
        progress(store.cache.counters.mine().bytes_fetched - before, total)
        drained.join(_LOOK_AGAIN_SECONDS)
    progress(store.cache.counters.mine().bytes_fetched - before, total)  # however soon it was over
    prefetcher.close()
    if failed:
        raise failed[0]
    return Warmed(done, store.cache.counters.mine().bytes_fetched - before)


def _drain(prefetcher: Prefetcher, failed: list[Exception]) -> None:
    try:
        prefetcher.drain()
    except Exception as error:
        failed.append(error)


def _fitting(feed: Feed, store: CachedStore, steps: range) -> tuple[list[Want], int]:
    """Wants of as many steps as the cache holds at once, one an object, and how many steps that are."""
    store.cache.require(sum(store.info(want.path).size for want in _step(feed, steps[0])))
    ranges: dict[str, tuple[tuple[int, int], ...] | None] = {}
    room = store.cache.max_bytes
    for done, step in enumerate(steps):
        for want in _step(feed, step):
            if want.path not in ranges:
                room -= store.info(want.path).size
                if room < 0:
                    return [Want(path, found) for path, found in ranges.items()], done
                ranges[want.path] = () if want.ranges is not None else None
            known = ranges[want.path]
            ranges[want.path] = None if known is None or want.ranges is None else (*known, *want.ranges)
    return [Want(path, found) for path, found in ranges.items()], len(steps)


def _step(feed: Feed, step: int) -> list[Want]:
    return needed(feed.manifest, {step: feed.planned(step, feed.rank, feed.world)})[step]


def _missing(store: CachedStore, wants: list[Want]) -> int:
    """Bytes that are not in the cache yet; whole parts are fetched."""
    total = 0
    for want in wants:
        blob = store.open(want.path)
        try:
            parts = {
                part
                for start, end in want.ranges or ((0, blob.size),)
                for first, last in blob.missing(start, end)
                for part in range(first, last)
            }
            total += sum(min(store.cache.part_bytes, blob.size - part * store.cache.part_bytes) for part in parts)
        finally:
            blob.close()
    return total
