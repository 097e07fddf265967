"""Runs in lockstep: one process, one request at a time, and the step as the clock of the cache."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from penstock.config import make_config
from penstock.feed import Feed
from penstock.feed.opening import open_run
from penstock.feed.steps import Steps
from penstock.observe.simulation.bysteps import FIRST_TIME, simulate_steps
from penstock.observe.simulation.node import NodeSimulation
from penstock.pipelines import PIPELINES
from penstock.store.cache.cache import NodeCache

Figures = dict[str, int]


class StepClock:
    """The clock of a cache: the number of the step."""

    def __init__(self) -> None:
        self.step = 0

    def __call__(self) -> int:
        return self.step + FIRST_TIME


def opened_cache(feed: Feed) -> NodeCache:
    cache = feed.open_stores()
    assert cache is not None
    return cache


class Node:
    """The ranks of one node, with a cache that is empty after what was read to open the run.

    Args:
        options: Options of the run, with a cache of the node's own.
        ranks: Ranks of the node.
        world: Number of ranks.
    """

    def __init__(self, options: dict[str, Any], ranks: range, world: int) -> None:
        self._clock = StepClock()
        self._ranks = ranks
        self._world = world
        config = make_config(options, PIPELINES, folder=Path())
        self._feeds = [Feed(config, open_run(config, self._clock), rank=rank, world=world) for rank in ranks]
        for feed in self._feeds:
            cache = opened_cache(feed)
            feed.catalog.close()
            cache.admission.clear()

    def predict(self, steps: int) -> NodeSimulation:
        """Simulate the node, which changes nothing."""
        feed = self._feeds[0]
        return simulate_steps(feed, opened_cache(feed), self._ranks, self._world, steps, lambda: None)

    def run(self, steps: int) -> Figures:
        """Make all batches; the ranks take turns."""
        before = self._counts()
        with ExitStack() as stack:
            walks = [stack.enter_context(feed.walk(Steps(0, steps))) for feed in self._feeds]
            for step in range(steps):
                self._clock.step = step
                for feed, walk in zip(self._feeds, walks, strict=True):
                    walk.batch(step)
                    feed.catalog.close()  # no blob stays open from one step to the next
            after = self._counts()
        return {name: after[name] - before[name] for name in after}

    def close(self) -> None:
        for feed in self._feeds:
            feed.close()

    def _counts(self) -> Figures:
        counts = [opened_cache(feed).counters.mine() for feed in self._feeds]
        return {
            "requests": sum(each.requests for each in counts),
            "bytes": sum(each.bytes_fetched for each in counts),
            "evictions": sum(each.evictions for each in counts),
        }


def predicted_of(found: NodeSimulation) -> Figures:
    counts = found.counts
    return {"requests": counts.requests, "bytes": counts.bytes_fetched, "evictions": counts.evictions}


def compare(options: dict[str, Any], steps: int, ranks: range, world: int) -> tuple[Figures, Figures]:
    """Return what was predicted for a node and what was counted."""
    node = Node(options, ranks, world)
    predicted = predicted_of(node.predict(steps))
    counted = node.run(steps)
    node.close()
    return predicted, counted
