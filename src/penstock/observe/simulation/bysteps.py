"""Walks a run step by step over a cache without files: exact, and as slow as planning each sample.

The real ``Ahead`` decides what to fetch, pin and release; only what fetches is replaced.
"""

import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from penstock.feed import Feed
from penstock.feed.ahead import Ahead
from penstock.feed.lookup import Lookup
from penstock.feed.steps import Steps
from penstock.observe.simulation.cachemodel import CacheModel, ModelEntry
from penstock.observe.simulation.node import NodeMoment, NodeSimulation
from penstock.readers.blobs import OPEN_PINS
from penstock.readers.reader import BaseReader, optional_methods
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.derived import DerivedStore
from penstock.store.cache.store import CacheBackedStore, cached_extents
from penstock.store.extents import Extent, Unit

FIRST_TIME = 2
"""Time of use at step 0: later than that of entries that are evicted first."""


@dataclass(slots=True)
class ModelPrefetcher:
    """Fetches a list of extents at once, in its order: a ``Prefetcher`` without threads and bytes.

    Attributes:
        cache: Cache of the node.
        request_space: Has all ranks of the node unpin what they have pinned for later.
    """

    cache: CacheModel
    request_space: Callable[[], None]
    _pinned: dict[Unit, ModelEntry] = field(default_factory=dict)
    _opened: OrderedDict[Unit, ModelEntry] = field(default_factory=OrderedDict)

    def want(self, wants: Sequence[Extent], urgent: int = 0, when_here: Callable[[], None] | None = None) -> None:
        """Replace the list; see ``Prefetcher.want``. Metadata tells readers nothing here: no bytes arrive."""
        del urgent, when_here
        units = dict.fromkeys(extent.unit for extent in wants)
        for unit in [unit for unit in self._pinned if unit not in units]:
            self.cache.unpin(self._pinned.pop(unit))
        full = False
        for unit, start, end in wants:
            if unit not in self._pinned and not full:
                entry = _pin(self.cache, unit)
                full = entry is None  # later extents must not take its space
                self.cache.counts.unplanned += full
                if entry is not None:
                    self._pinned[unit] = entry
            if unit in self._pinned:
                self.cache.fetch(self._pinned[unit], start, end)

    def wait_for(self, extents: Sequence[Extent]) -> None:
        """Do nothing: ``want`` has fetched what there was room for."""

    def read(self, extents: Iterable[Extent]) -> int:
        """Read the bytes of a step. As in a run, some units stay open, and so pinned, until the end of the step.

        Returns:
            The bytes that the cache had fetched when the last of these bytes was there.

        Raises:
            ValueError: If the cache has no room for a unit beside those that are open.
        """
        needed = 0
        for unit, start, end in extents:
            entry = self._open(unit)
            self.cache.fetch(entry, start, end)
            needed = max(needed, self.cache.needed(entry, start, end))
        self.close_units()
        return needed

    def _open(self, unit: Unit) -> ModelEntry:
        """Pin a unit to read it, and make room for it as a run does."""
        entry = self._opened.get(unit)
        if entry is not None:
            self._opened.move_to_end(unit)
            return entry
        self.cache.counts.unplanned += unit not in self._pinned
        entry = _pin(self.cache, unit)
        if entry is None:
            self.cache.counts.space_requests += 1
            self.request_space()
            entry = _pin(self.cache, unit)
        if entry is None:
            raise ValueError(
                f"--cache {self.cache.max_bytes:,}: there is no room for {unit.path} beside the {self.cache.pinned:,} "
                "bytes that are being read; simulate a larger cache, or give the run a smaller pool or more lanes"
            )
        self._opened[unit] = entry
        if len(self._opened) > OPEN_PINS:
            self.cache.unpin(self._opened.popitem(last=False)[1])
        return entry

    def close_units(self) -> None:
        """Close all units that were opened to be read."""
        while self._opened:
            self.cache.unpin(self._opened.popitem()[1])

    def finished(self, units: Iterable[Unit]) -> None:
        """Unpin units and mark them as no longer needed; see ``Prefetcher.finished``."""
        for unit in units:
            if unit in self._pinned:
                self.cache.unpin(self._pinned.pop(unit))
            self.cache.finished(_place(unit))

    def unpin_all(self) -> None:
        """Unpin everything and empty the list."""
        self.want([])
        self.close_units()

    def close(self, wait: bool = True) -> None:
        del wait
        self.want([])


class _ModelWalk:
    """The walk of one rank over the cache of its node."""

    def __init__(self, feed: Feed, cache: NodeCache, model: CacheModel, rank: int, world: int, steps: Steps) -> None:
        if any(reader.keeps_rows for reader in _readers(feed)):
            feed = pickle.loads(pickle.dumps(feed))  # each rank has a memory of its own
        self._catalog = feed.catalog
        self._readers = _readers(feed)
        self._prefetcher = ModelPrefetcher(model, cache.space_requests.notify)
        self._ahead = Ahead(feed.catalog, cache, feed.config.prefetch.steps, self._prefetcher)
        self._lookup = Lookup(feed.plan, feed.catalog, rank, world, feed.timeline(world), steps)
        self._window = self._ahead.begin(self._lookup, steps)

    def make(self, step: int) -> int:
        """Fetch ahead of a step, and read its bytes; see ``ModelPrefetcher.read``."""
        with self._ahead.making(self._window, step):
            shares = self._lookup.at(step).shares
            wants = self._catalog.wants(shares)
            for share in shares:
                if self._readers[share.part].keeps_rows:
                    self._readers[share.part].assume_read(share.uses)
            needed = self._prefetcher.read(cached_extents(wants))
        self._lookup.done(step)
        return needed

    def close(self) -> None:
        self._ahead.end(self._window)
        self._ahead.close()


def simulate_steps(
    feed: Feed, cache: NodeCache, ranks: range, world: int, steps: int, progress: Callable[[], None]
) -> NodeSimulation:
    """Simulate the ranks of one node, which take turns: every step is made by each of them in order.

    Args:
        feed: Feed of the run.
        cache: Cache of the feed's stores, with the bound to simulate. Nothing is written to it.
        ranks: Ranks of the node.
        world: Number of ranks.
        steps: Number of steps, from the start of the run.
        progress: Function that is called after each step.
    """
    model = CacheModel(cache.max_bytes, cache.part_bytes)
    walks = [_ModelWalk(feed, cache, model, rank, world, Steps(0, steps)) for rank in ranks]
    moments: list[NodeMoment] = []
    for step in range(steps):
        model.clock = step + FIRST_TIME
        needed = max(walk.make(step) for walk in walks)
        counts = model.counts
        moments.append(
            NodeMoment(
                step,
                counts.bytes_fetched,
                needed,
                counts.requests,
                counts.evictions,
                model.held,
                counts.downloads,
            )
        )
        progress()
    for walk in walks:
        walk.close()
    return NodeSimulation(model.counts, moments, model.distinct_bytes, model.most_pinned, model.largest)


def _pin(cache: CacheModel, unit: Unit) -> ModelEntry | None:
    """Pin a unit; None if there is no room. A piece that is not in the cache is made: its input is fetched."""
    store, path, within = unit
    assert isinstance(store, CacheBackedStore)
    size = store.resolve_size(path, within)
    if not isinstance(store, DerivedStore) or cache.holds(_place(unit)):
        return cache.pin(_place(unit), size)
    if not cache.make_room(size):
        return None
    inputs = cached_extents(store.inputs(path, within))
    for extent in inputs:
        entry = _pin(cache, extent.unit)
        if entry is not None:
            cache.fetch(entry, extent.start, extent.end)
            cache.unpin(entry)
    made = cache.pin(_place(unit), size)
    if made is not None:
        cache.fill(made)
        for extent in inputs:
            cache.finished(_place(extent.unit))
    return made


def _readers(feed: Feed) -> list[BaseReader]:
    return [optional_methods(feed.catalog.reader(number)) for number in range(len(feed.catalog.parts))]


def _place(unit: Unit) -> str:
    assert isinstance(unit.store, CacheBackedStore)
    return str(unit.store.place(unit.path, unit.within))
