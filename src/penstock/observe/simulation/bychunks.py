"""Walks a run by the stays of its groups in the pool, not by samples: a forecast of long runs within seconds.

A group is admitted when it becomes resident, its bytes come as its items are used, evenly over its stay, and it is
released when it leaves. When each group comes and goes is a closed form of the plan.
"""

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from penstock.feed import Feed
from penstock.observe.simulation.bysteps import FIRST_TIME
from penstock.observe.simulation.cachemodel import CacheModel, ModelEntry
from penstock.observe.simulation.curves import Floats, GroupCurve, group_units, measure_source
from penstock.observe.simulation.node import NodeMoment, NodeSimulation
from penstock.plan.draws import Ints
from penstock.plan.endless import Endless
from penstock.plan.timeline import Timeline
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.policy import fits
from penstock.store.cache.store import CacheBackedStore

_TICKS = 2_000


class GroupStay(NamedTuple):
    """A stay of a group in the pool of a stream.

    Attributes:
        begin: Step at which its bytes are wanted: ahead of the step at which it becomes resident.
        due: Step at which it becomes resident.
        end: Step from which on it is not.
        source: Number of the source.
        group: Number of the group.
        share: Share of the stream's samples that the node takes.
    """

    begin: float
    due: float
    end: float
    source: int
    group: int
    share: float


class ChunkSimulator:
    """Simulates the nodes of a run by chunks.

    Args:
        feed: Feed of the run.
        cache: Cache of the feed's stores, with the bound to simulate. Nothing is written to it.
        steps: Number of steps, from the start of the run.
        nodes: Number of nodes.
        world: Number of ranks.

    Raises:
        ValueError: If the run has no endless, shuffled order of batches of a fixed size, or items are excluded.
    """

    def __init__(self, feed: Feed, cache: NodeCache, steps: int, nodes: int, world: int) -> None:
        timeline = feed.timeline(world)
        if not isinstance(feed.plan.order, Endless) or not isinstance(timeline, Timeline):
            raise ValueError(
                "only endless runs with batches of a fixed size are simulated by chunks: use fewer --steps"
            )
        self._order = feed.plan.order
        self._catalog = feed.catalog
        self._cache = cache
        self._nodes = nodes
        # A window moves when half of it is used: groups come between a half and all of its steps early, and leave up to
        # half of its steps late.
        self._ahead = 0.75 * feed.config.prefetch.steps
        self._late = 0.25 * feed.config.prefetch.steps
        self._ticks = np.unique(np.linspace(0, steps, min(steps, _TICKS) + 1).astype(np.int64))
        slots = [timeline.batch(int(step))[0] for step in self._ticks]
        self._drawn = [
            np.array([self._order.drawn(slot, lane) for slot in slots]) for lane in range(self._order.lanes)
        ]  # [lane][tick, source]
        sources = range(len(self._catalog.sources))
        self._curves: list[GroupCurve] = [measure_source(self._catalog, each, cache.part_bytes) for each in sources]
        self._places: dict[tuple[int, int], list[tuple[str, int]]] = {}

    def node(self, number: int) -> NodeSimulation:
        """Simulate one node.

        Raises:
            ValueError: If the cache cannot hold the resident groups.
        """
        model = CacheModel(self._cache.max_bytes, self._cache.part_bytes)
        fetched = np.zeros(len(self._ticks))
        requests = np.zeros(len(self._ticks))
        events = np.full((3, len(self._ticks)), -1, dtype=np.int64)  # evictions, bytes in the cache, downloads
        leaving: list[tuple[float, int, GroupStay, list[ModelEntry]]] = []
        coming = sorted(self._stays(number))
        at = 0
        while coming:
            stay = heapq.heappop(coming)
            at += 1
            while leaving and leaving[0][0] <= stay.begin + (0 if self._fits(model, stay) else self._late):
                self._leave(model, *heapq.heappop(leaving)[2:])
            model.clock = int(stay.begin) + FIRST_TIME
            entries = self._enter(model, stay)
            if entries is None:  # fetched ahead only if there is room
                model.counts.unplanned += 1
                heapq.heappush(coming, stay._replace(begin=stay.due))
                continue
            for entry in entries:
                self._use(model, stay, entry, fetched, requests)
            heapq.heappush(leaving, (stay.end, at, stay, entries))
            tick = int(self._ticks.searchsorted(stay.begin))
            events[:, tick] = model.counts.evictions, model.held, model.counts.downloads
        known = np.maximum.accumulate(np.where(events[0] >= 0, np.arange(len(self._ticks)), 0))
        events = events[:, known]  # nothing changes in a tick without an event
        model.counts.bytes_fetched = round(fetched.sum())
        model.counts.requests = round(requests.sum())
        return NodeSimulation(
            model.counts,
            self._moments(fetched, requests, events),
            model.distinct_bytes,
            model.most_pinned,
            model.largest,
        )

    def _moments(self, fetched: Floats, requests: Floats, events: Ints) -> list[NodeMoment]:
        total = np.cumsum(fetched)
        asked = np.cumsum(requests)
        found = []
        for tick in range(1, len(self._ticks)):
            # Bytes of earlier ticks must be there; of the first tick, those of its first step.
            needed = total[tick - 1] if tick > 1 else total[1] / self._ticks[1]
            evictions, held, downloads = events[:, tick].tolist()
            found.append(
                NodeMoment(
                    int(self._ticks[tick]) - 1,
                    round(total[tick]),
                    round(needed),
                    round(asked[tick]),
                    evictions,
                    held,
                    downloads,
                )
            )
        return found

    def _stays(self, node: int) -> Iterator[GroupStay]:
        for lane, share in self._lanes(node):
            for source in range(len(self._catalog.sources)):
                if self._order.is_split(source):
                    yield from self._stays_of(source, lane, share)
        for source in range(len(self._catalog.sources)):
            if not self._order.is_split(source):
                yield from self._stays_of(source, 0, 1 / self._nodes)

    def _lanes(self, node: int) -> Iterator[tuple[int, float]]:
        """Yield the lanes that a node draws from, with its share of their samples."""
        lanes = self._order.lanes
        for lane in range(lanes):
            low = max(lane / lanes, node / self._nodes)
            high = min((lane + 1) / lanes, (node + 1) / self._nodes)
            if high - low > 1e-12:
                yield lane, (high - low) * lanes

    def _stays_of(self, source: int, lane: int, share: float) -> Iterator[GroupStay]:
        drawn = self._drawn[lane][:, source]
        epoch = 0
        while True:
            found = self._order.stays(source, lane, epoch)
            if found is None:
                raise ValueError(
                    f"{self._catalog.sources[source]} is in file order or has excluded items, and is not simulated by "
                    "chunks: use fewer --steps"
                )
            groups, begin, end = found
            if not len(groups) or begin.min() >= drawn[-1]:
                return
            here = begin < drawn[-1]
            first, after = (np.interp(each[here], drawn, self._ticks) for each in (begin, end))
            past = end[here] > drawn[-1]  # it is resident after the last step
            rate = drawn[-1] / self._ticks[-1]
            after[past] += (end[here][past] - drawn[-1]) / rate
            for group, due, leaves in zip(groups[here].tolist(), first.tolist(), after.tolist(), strict=True):
                begin_step = max(0.0, due - self._ahead)
                yield GroupStay(begin_step, due, max(leaves, due) + self._late + 1e-9, source, group, share)
            epoch += 1

    def _places_of(self, stay: GroupStay) -> list[tuple[str, int]]:
        """Return path in the cache and size of each unit of a group."""
        key = (stay.source, stay.group)
        if key not in self._places:
            found = []
            for unit, size in group_units(self._catalog, *key).items():
                if isinstance(unit.store, CacheBackedStore):
                    found.append((str(unit.store.place(unit.path, unit.within)), size))
            self._places[key] = found
        return self._places[key]

    def _fits(self, model: CacheModel, stay: GroupStay) -> bool:
        """Return whether a group has room beside what is pinned."""
        return fits(model.pinned, sum(size for _, size in self._places_of(stay)), model.max_bytes)

    def _enter(self, model: CacheModel, stay: GroupStay) -> list[ModelEntry] | None:
        """Pin the units of a group; None if there is no room for a group that is not due yet."""
        places = self._places_of(stay)
        if not self._fits(model, stay):
            if stay.begin < stay.due:
                return None
            size = sum(size for _, size in places)
            raise ValueError(
                f"--cache {self._cache.max_bytes:,}: the resident groups need {model.pinned + size:,} bytes and more; "
                "simulate a larger cache, or give the run a smaller pool or more lanes"
            )
        entries = [model.pin(path, size) for path, size in places]
        return [entry for entry in entries if entry is not None]

    def _use(self, model: CacheModel, stay: GroupStay, entry: ModelEntry, fetched: Floats, requests: Floats) -> None:
        """Add the bytes and requests of a stay to the ticks in which they come."""
        curve = self._curves[stay.source]
        low, high = self._ticks.searchsorted([stay.begin, min(stay.end, float(self._ticks[-1]))]).tolist()
        low = max(1, low)
        ticks = slice(low, max(low, high) + 1)
        passed = np.clip((self._ticks[ticks] - stay.begin) / (stay.end - stay.begin), 0, 1)
        fresh = np.concatenate([[0.0], passed]) * stay.share
        used = 1 - (1 - entry.used_share) * (1 - fresh)  # of several epochs, each takes other samples
        if curve.at_once:
            used = np.where(np.arange(len(used)) > 0, 1.0, entry.used_share)
        before = model.seen_share.get(entry.path, 0.0)
        if entry.used_share == 0:
            again, _ = curve.bytes_at(np.array([min(before, used[-1]), 0.0]), entry.size).tolist()
            model.counts.bytes_again += round(again) if before else 0
        model.seen_share[entry.path] = max(before, float(used[-1]))
        model.counts.downloads += entry.used_share == 0
        fetched[ticks] += np.diff(_grown(curve.bytes_at(used, entry.size), entry))
        requests[ticks] += np.diff(_grown(curve.requests_at(used, entry.size), entry))
        entry.used_share = float(used[-1])

    def _leave(self, model: CacheModel, stay: GroupStay, entries: list[ModelEntry]) -> None:
        model.clock = int(stay.end) + FIRST_TIME
        for entry in entries:
            model.unpin(entry)
            if not entry.pins:
                model.finished(entry.path)


def _grown(values: Floats, entry: ModelEntry) -> Floats:
    """Return a curve whose first point is 0 for an entry of which nothing was fetched."""
    if entry.used_share == 0:
        values[0] = 0
    return values
