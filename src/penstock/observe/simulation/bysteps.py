"""Walks a run step by step over a cache without files: exact, and as slow as planning each sample.

The real ``Ahead`` decides what to fetch, pin and release; only what fetches is replaced.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from penstock.feed import Feed
from penstock.feed.ahead import Ahead
from penstock.feed.lookup import Lookup
from penstock.feed.steps import Steps
from penstock.observe.simulation.cachemodel import CacheModel, ModelEntry
from penstock.observe.simulation.node import NodeMoment, NodeSimulation
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.store import CacheBackedStore
from penstock.store.extents import Extent, Unit

FIRST_TIME = 2
"""Time of use at step 0: later than that of entries that are evicted first."""


@dataclass(slots=True)
class ModelPrefetcher:
    """Fetches a list of extents at once, in its order: a ``Prefetcher`` without threads and bytes.

    Attributes:
        cache: Cache of the node.
    """

    cache: CacheModel
    _pinned: dict[Unit, ModelEntry] = field(default_factory=dict)

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
                if entry is not None:
                    self._pinned[unit] = entry
            if unit in self._pinned:
                self.cache.fetch(self._pinned[unit], start, end)

    def read(self, extents: Iterable[Extent]) -> int:
        """Read the bytes of a step. Units that are not on the list are pinned until the end of the step.

        Returns:
            The bytes that the cache had fetched when the last of these bytes was there.
        """
        opened: dict[Unit, ModelEntry] = {}
        needed = 0
        for unit, start, end in extents:
            entry = self._pinned.get(unit) or opened.get(unit) or _pin(self.cache, unit)
            if entry is None:  # a run waits here, and asks all processes to unpin what they can
                continue
            if unit not in self._pinned:
                opened[unit] = entry
            self.cache.fetch(entry, start, end)
            needed = max(needed, self.cache.needed(entry, start, end))
        for entry in opened.values():
            self.cache.unpin(entry)
        return needed

    def finished(self, units: Iterable[Unit]) -> None:
        """Mark units as no longer needed; see ``Prefetcher.finished``."""
        for unit in units:
            self.cache.finished(_place(unit))

    def unpin_all(self) -> None:
        """Unpin everything and empty the list."""
        self.want([])

    def close(self, wait: bool = True) -> None:
        del wait
        self.want([])


class _ModelWalk:
    """The walk of one rank over the cache of its node."""

    def __init__(self, feed: Feed, cache: NodeCache, model: CacheModel, rank: int, world: int, steps: Steps) -> None:
        self._catalog = feed.catalog
        self._prefetcher = ModelPrefetcher(model)
        self._ahead = Ahead(feed.catalog, cache, feed.config.prefetch.steps, self._prefetcher)
        self._lookup = Lookup(feed.plan, feed.catalog, rank, world, feed.timeline(world), steps)
        self._window = self._ahead.begin(self._lookup, steps)

    def make(self, step: int) -> int:
        """Fetch ahead of a step, and read its bytes; see ``ModelPrefetcher.read``."""
        with self._ahead.making(self._window, step):
            wants = self._catalog.wants(self._lookup.at(step).shares)
            needed = self._prefetcher.read(each for each in wants if isinstance(each.unit.store, CacheBackedStore))
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
    return NodeSimulation(model.counts, moments, model.distinct_bytes, model.most_pinned)


def _pin(cache: CacheModel, unit: Unit) -> ModelEntry | None:
    assert isinstance(unit.store, CacheBackedStore)
    return cache.pin(_place(unit), unit.store.resolve_size(unit.path, unit.within))


def _place(unit: Unit) -> str:
    assert isinstance(unit.store, CacheBackedStore)
    return str(unit.store.place(unit.path, unit.within))
