"""What one node does over the steps of a run, and how long its steps wait for bytes. Knows no plan and no cache."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.observe.simulation.cachemodel import CacheCounts


class NodeMoment(NamedTuple):
    """A node after a step. All counts are from the start of the run.

    Attributes:
        step: Step that was made.
        bytes_fetched: Bytes that were requested by then.
        bytes_needed: Of the bytes in the order of requests, those that must have arrived before the step is made.
        requests: Requests.
        evictions: Entries that were evicted.
        held: Bytes in the cache.
        downloads: Entries of which bytes were fetched after they were admitted.
    """

    step: int
    bytes_fetched: int
    bytes_needed: int
    requests: int
    evictions: int
    held: int
    downloads: int


@dataclass(slots=True)
class NodeSimulation:
    """One node.

    Attributes:
        counts: What its cache did over all steps.
        moments: The node after each step, or after every so many.
        distinct_bytes: Sizes of all units that it ever used: a cache of this size evicts nothing.
        pinned_bytes: Most bytes that were pinned at once.
        largest_unit: Size of the largest unit that it ever used.
    """

    counts: CacheCounts
    moments: list[NodeMoment]
    distinct_bytes: int
    pinned_bytes: int
    largest_unit: int = 0


class Stalls(NamedTuple):
    """Steps that wait for bytes.

    Attributes:
        steps: Number of steps that wait, without the first.
        seconds: Time of all waits after the first.
        first_seconds: Time before the first step.
        hours: Duration of the whole run.
        at: Seconds from the start at each moment.
    """

    steps: int
    seconds: float
    first_seconds: float
    hours: float
    at: list[float]


_NOTICEABLE_SECONDS = 1e-6
_MOST_BYTES_PER_SECOND = 1e12  # more than any node has


def stalls(nodes: Sequence[NodeSimulation], step_seconds: float, bytes_per_second: float) -> Stalls:
    """Return how long steps wait, if every node has a link that sends one byte after another, in order.

    All nodes wait for the slowest, as in training with one gradient.

    Args:
        nodes: Nodes of the run, with moments at the same steps.
        step_seconds: Duration of a step whose bytes are there.
        bytes_per_second: Bandwidth of each node.
    """
    now = 0.0
    free = [0.0] * len(nodes)  # when each link has sent everything that was requested
    waited: list[tuple[float, int]] = []  # seconds, and steps
    at: list[float] = []
    last = -1
    for together in zip(*(node.moments for node in nodes), strict=True):
        ready = now
        for number, (node, moment) in enumerate(zip(nodes, together, strict=True)):
            before = node.moments[len(at) - 1].bytes_fetched if at else 0
            start = max(now, free[number])
            if moment.bytes_fetched > before:
                free[number] = start + (moment.bytes_fetched - before) / bytes_per_second
            spare = moment.bytes_fetched - moment.bytes_needed
            ready = max(ready, free[number] - spare / bytes_per_second)
        steps = together[0].step - last
        waited.append((ready - now, steps))
        now = ready + steps * step_seconds
        last = together[0].step
        at.append(now)
    late = [(seconds, steps) for seconds, steps in waited[1:] if seconds > _NOTICEABLE_SECONDS]
    seconds = sum(seconds for seconds, _ in late)
    return Stalls(sum(steps for _, steps in late), seconds, waited[0][0] if waited else 0.0, now / 3600, at)


def enough_bandwidth(nodes: Sequence[NodeSimulation], step_seconds: float) -> float | None:
    """Return the bytes per second with which no step but the first waits, to within 1%.

    None if steps wait with any bandwidth, as where bytes cannot be fetched ahead of the step that needs them.
    """
    low = 1.0
    high = 2.0
    while stalls(nodes, step_seconds, high).steps:
        if high > _MOST_BYTES_PER_SECOND:
            return None
        low = high
        high *= 2
    while high / low > 1.01:
        middle = (low * high) ** 0.5
        if stalls(nodes, step_seconds, middle).steps:
            low = middle
        else:
            high = middle
    return high
