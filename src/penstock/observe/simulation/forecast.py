"""A forecast of a run: downloads, requests, cache, waits and costs. Opens the stores of the feed, and requests nothing
of known objects."""

import math
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.feed import Feed
from penstock.observe.simulation.bychunks import ChunkSimulator
from penstock.observe.simulation.bysteps import simulate_steps
from penstock.observe.simulation.node import NodeMoment, NodeSimulation, Stalls, enough_bandwidth, stalls
from penstock.readers.reader import optional_methods
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.derived import DerivedStore
from penstock.store.cache.store import CacheBackedStore

TOLERANCE = 0.1
"""Share by which requests and evictions of an ordinary run, with threads, may differ from the forecast."""
PIECES_TOLERANCE = 0.2
"""The same, if pieces are made in the cache whose sizes are estimated."""
_PIECES_NOTE = "pieces such as unpacked row groups are made in the cache: their sizes are estimated"
_MAX_SAMPLES = 300_000  # that are planned one by one
_HOUR = 3_600.0


class Setting(NamedTuple):
    """What is simulated.

    Attributes:
        nodes: Number of nodes.
        gpus_per_node: Ranks per node.
        steps: Number of steps, from the start of the run.
        step_seconds: Duration of a step whose bytes are there.
        bytes_per_second: Bandwidth of each node.
        cache_bytes: Bound of each node's cache.
    """

    nodes: int
    gpus_per_node: int
    steps: int
    step_seconds: float
    bytes_per_second: float
    cache_bytes: int

    @property
    def world(self) -> int:
        return self.nodes * self.gpus_per_node


class Rate(NamedTuple):
    """Downloads per hour, of one node.

    Attributes:
        downloads: Units, such as shards, of which bytes were fetched.
        gigabytes: Bytes, in GB.
    """

    downloads: float
    gigabytes: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the nodes of a run will do.

    Attributes:
        setting: What was simulated.
        by: ``steps`` if every sample was planned, ``chunks`` if only the stays of groups were.
        nodes: What each node does.
        stalls: Steps that wait.
        enough_bandwidth: Bytes per second and node with which no step but the first waits; None if some always do.
        enough_cache: Bytes with which no node evicts anything.
        least_cache: Bytes that the busiest node pins at once.
        warming: Rate of the first hour, or of the whole run if it is shorter; mean over nodes.
        steady: Rate of the last quarter of the run; mean over nodes.
        tolerance: Share by which requests and evictions of an ordinary run may differ; None if they are only the least.
        notes: Sentences that say why figures are less exact.
    """

    setting: Setting
    by: str
    nodes: list[NodeSimulation]
    stalls: Stalls
    enough_bandwidth: float | None
    enough_cache: int
    least_cache: int
    warming: Rate
    steady: Rate
    tolerance: float | None
    notes: tuple[str, ...]

    def total(self, name: str) -> int:
        """Return a count of ``CacheCounts``, summed over nodes."""
        return sum(getattr(node.counts, name) for node in self.nodes)

    def requests_between(self) -> tuple[int, int | None]:
        """Return the least and the most requests of an ordinary run; None if there is no bound."""
        return between(self.total("requests"), self.tolerance)

    def evictions_between(self) -> tuple[int, int | None]:
        """Return the least and the most evictions of an ordinary run; None if there is no bound."""
        return between(self.total("evictions"), self.tolerance)

    def cost(self, per_gigabyte: float, per_million_requests: float) -> float:
        """Return what all downloads cost."""
        return self.total("bytes_fetched") / 1e9 * per_gigabyte + self.total("requests") / 1e6 * per_million_requests


def between(count: int, tolerance: float | None) -> tuple[int, int | None]:
    """Return a count less and more a share, rounded outwards. Without a tolerance, there is no upper bound."""
    least = int(count * (1 - (tolerance or TOLERANCE)))
    most = None if tolerance is None else math.ceil(count * (1 + tolerance))
    return least, most


def forecast(feed: Feed, setting: Setting, progress: Callable[[int, int], None]) -> Forecast:
    """Simulate a run: by steps if it is short, which is exact in lockstep, otherwise by chunks.

    Args:
        feed: Feed of the run, of any rank.
        setting: What to simulate.
        progress: Function that is called with what is done and the total.

    Raises:
        ValueError: If all stores are local folders, or the run has fewer steps.
    """
    end = feed.plan.steps(feed.timeline(setting.world))
    if end is not None and end < setting.steps:
        raise ValueError(f"--steps {setting.steps}: the run has {end} steps")
    samples = setting.steps * feed.plan.rows(0, 0, 1, feed.timeline(setting.world))
    with tempfile.TemporaryDirectory(prefix="penstock-simulate-") as folder:
        cache = NodeCache.as_it_is(folder, setting.cache_bytes, _part_bytes(feed))
        by, simulate = ("steps", _by_steps) if samples <= _MAX_SAMPLES else ("chunks", _by_chunks)
        try:
            found = _made(setting, by, simulate(feed, cache, setting, progress), *_certainty(feed))
            if not found.total("unplanned"):
                return found
            cache.max_bytes = sys.maxsize
            roomy = simulate(feed, cache, setting, progress)
            return replace(found, tolerance=None, notes=(*found.notes, _too_small(found, roomy)))
        finally:
            cache.close()


def _certainty(feed: Feed) -> tuple[float | None, tuple[str, ...]]:
    """Return the tolerance of a forecast, and why it is not the usual one."""
    readers = [optional_methods(feed.catalog.reader(number)) for number in range(len(feed.catalog.parts))]
    unforeseen = dict.fromkeys(note for reader in readers if (note := reader.unforeseen()) is not None)
    if unforeseen:
        return None, tuple(f"{note}; more is downloaded than is shown here" for note in unforeseen)
    for source in range(len(feed.catalog.sources)):
        if any(isinstance(extent.unit.store, DerivedStore) for extent in feed.catalog.resident(source, 0)):
            return PIECES_TOLERANCE, (_PIECES_NOTE,)
    return TOLERANCE, ()


def _too_small(found: Forecast, roomy: list[NodeSimulation]) -> str:
    enough = max(node.pinned_bytes + node.largest_unit for node in roomy)
    return (
        f"{found.total('unplanned'):,} times there was no room to fetch ahead: the figures hold for one process "
        "without threads, and an ordinary run may download several times as much; with a cache of "
        f"{enough:,} bytes or more per node they hold for both"
    )


def _part_bytes(feed: Feed) -> int:
    """Return the part size of the run's own cache."""
    feed.catalog.open_stores()
    for source in range(len(feed.catalog.sources)):
        for extent in feed.catalog.resident(source, 0):
            if isinstance(extent.unit.store, CacheBackedStore):
                return extent.unit.store.cache.part_bytes
    raise ValueError("all stores of this run are local folders, read in place: there is nothing to simulate")


def _by_steps(
    feed: Feed, cache: NodeCache, setting: Setting, progress: Callable[[int, int], None]
) -> list[NodeSimulation]:
    found = []
    gpus = setting.gpus_per_node
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        progress(done, setting.nodes * setting.steps)

    for node in range(setting.nodes):
        ranks = range(node * gpus, (node + 1) * gpus)
        found.append(simulate_steps(feed, cache, ranks, setting.world, setting.steps, one_more))
    return found


def _by_chunks(
    feed: Feed, cache: NodeCache, setting: Setting, progress: Callable[[int, int], None]
) -> list[NodeSimulation]:
    simulator = ChunkSimulator(feed, cache, setting.steps, setting.nodes, setting.world)
    found = []
    for node in range(setting.nodes):
        found.append(simulator.node(node))
        progress(node + 1, setting.nodes)
    return found


def _made(
    setting: Setting, by: str, nodes: list[NodeSimulation], tolerance: float | None, notes: tuple[str, ...]
) -> Forecast:
    waits = stalls(nodes, setting.step_seconds, setting.bytes_per_second)
    after = [seconds / _HOUR for seconds in waits.at]
    hour = next((number for number, hours in enumerate(after) if hours >= 1), len(after) - 1)
    late = 3 * (len(after) - 1) // 4
    return Forecast(
        setting,
        by,
        nodes,
        waits,
        enough_bandwidth(nodes, setting.step_seconds),
        max(node.distinct_bytes for node in nodes),
        max(node.pinned_bytes for node in nodes),
        _rate(nodes, None, hour, after),
        _rate(nodes, late, len(after) - 1, after),
        tolerance,
        notes,
    )


def _rate(nodes: list[NodeSimulation], first: int | None, last: int, hours: list[float]) -> Rate:
    """Return the mean rate of a node between two moments; from the start if there is no first."""
    nothing = NodeMoment(-1, 0, 0, 0, 0, 0, 0)
    begins = [nothing if first is None else node.moments[first] for node in nodes]
    ends = [node.moments[last] for node in nodes]
    took = (hours[last] - (0.0 if first is None else hours[first])) * len(nodes)
    if not took:
        return Rate(0.0, 0.0)
    pairs = list(zip(begins, ends, strict=True))
    downloads = sum(end.downloads - begin.downloads for begin, end in pairs)
    nbytes = sum(end.bytes_fetched - begin.bytes_fetched for begin, end in pairs)
    return Rate(downloads / took, nbytes / 1e9 / took)
