"""How far each source is from its quota, and how far the plan lets it be. Knows the plan; reads no ledger."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from penstock.feed import Feed
from penstock.observe.summary.binned import Binned, Doubles


class Drift(NamedTuple):
    """Samples used minus the quota of each source, at the ends of bins.

    Attributes:
        steps: Ends of the bins where all lines end, so that counts are exact.
        off: Samples above the quota at these steps, by source.
        bound: Limit of their absolute value that the plan proves; None without one.
    """

    steps: list[int]
    off: dict[str, Doubles]
    bound: float | None

    @property
    def worst(self) -> float:
        """Largest distance of a source from its quota."""
        return max((float(np.abs(off).max(initial=0.0)) for off in self.off.values()), default=0.0)


def drift_of(feed: Feed, binned: Binned) -> Drift | None:
    """Compare a run with the quotas of its mixture; None if it has none, or no step where all ranks are counted."""
    bins = binned.bins
    order = feed.plan.order
    ends = [number for number in range(1, len(bins.edges)) if bins.whole[number]]
    start = binned.timeline.end_slot(int(bins.edges[0]) - 1)
    used = np.cumsum(bins.samples)
    steps: list[int] = []
    quotas: list[Doubles] = []
    kept: list[int] = []
    for number in ends:
        step = int(bins.edges[number])
        stop = binned.timeline.end_slot(step - 1)
        granted = order.quotas(start, stop)
        if granted is None or round(used[number - 1]) != stop - start:
            continue  # a finite run, or lines are missing
        steps.append(step)
        quotas.append(granted)
        kept.append(number - 1)
    if not steps:
        return None
    table = np.array(quotas)
    none = np.zeros(len(bins.samples))
    off = {
        name: np.cumsum(bins.sources.get(name, none))[kept] - table[:, number]
        for number, name in enumerate(feed.catalog.sources)
    }
    return Drift(steps, off, _bound(feed, start))


def quota_shares(feed: Feed, binned: Binned) -> dict[str, Doubles] | None:
    """Return the quota of each source in each bin, in percent."""
    spans = [binned.timeline.span(first, after) for first, after in pairwise(binned.bins.edges.tolist())]
    found = [feed.plan.order.quotas(start, stop) for start, stop in spans]
    granted = [each for each in found if each is not None]
    if len(granted) < len(found):
        return None
    table = 100 * np.array(granted) / np.array([stop - start for start, stop in spans])[:, None]
    return {name: table[:, number] for number, name in enumerate(feed.catalog.sources)}


def _bound(feed: Feed, start: int) -> float | None:
    """Return the bound of Tijdeman's chairman assignment, once per mixture; twice if the run is seen from later on."""
    sources = len(feed.catalog.sources)
    if feed.config.rounds is not None or sources < 2:
        return None
    each = 1 - 1 / (2 * sources - 2) if sources > 1 else 0.0
    return each * len(feed.identity.mixture) * (2 if start else 1)
