"""Steps that wait for bytes: a link that sends one byte after another."""

import pytest

from penstock.observe.simulation.cachemodel import CacheCounts, CacheModel
from penstock.observe.simulation.node import NodeMoment, NodeSimulation, enough_bandwidth, stalls


def node(*moments: tuple[int, int]) -> NodeSimulation:
    """A node by bytes that were requested and bytes that are needed, from the start, at each step."""
    made = [NodeMoment(step, fetched, needed, 0, 0, 0, 0) for step, (fetched, needed) in enumerate(moments)]
    return NodeSimulation(CacheCounts(), made, 0, 0)


def test_the_first_step_waits_for_its_own_bytes_only() -> None:
    found = stalls([node((100, 20), (100, 60), (100, 100))], step_seconds=10, bytes_per_second=10)
    assert found.first_seconds == 2
    assert (found.steps, found.seconds) == (0, 0)
    assert found.at == [12, 22, 32]


def test_a_step_whose_bytes_are_late_waits_for_them() -> None:
    found = stalls([node((10, 10), (210, 210), (210, 210))], step_seconds=1, bytes_per_second=10)
    assert (found.steps, found.seconds) == (1, 20)
    assert found.hours == pytest.approx((1 + 3 + 20) / 3600)


def test_all_nodes_wait_for_the_slowest() -> None:
    slow = node((10, 10), (110, 110))
    fast = node((10, 10), (10, 10))
    assert stalls([fast, slow], 1, 10).seconds == stalls([slow], 1, 10).seconds == 10


def test_with_enough_bandwidth_no_step_but_the_first_waits() -> None:
    nodes = [node((10, 10), (60, 10), (110, 60), (110, 110))]
    enough = enough_bandwidth(nodes, 1)
    assert enough is not None and stalls(nodes, 1, enough).steps == 0
    assert stalls(nodes, 1, enough * 0.98).steps > 0


def test_no_bandwidth_is_enough_for_bytes_that_the_step_itself_asks_for() -> None:
    assert enough_bandwidth([node((10, 10), (10**9, 10**9), (2 * 10**9, 2 * 10**9))], 1) is None


def test_the_model_evicts_what_is_finished_first_and_never_what_is_pinned() -> None:
    cache = CacheModel(max_bytes=30, part_bytes=4)
    entries = {}
    for clock, path in enumerate("abc", start=2):
        cache.clock = clock
        entry = cache.pin(path, 10)
        assert entry is not None
        assert cache.fetch(entry, 0, None) == 10
        entries[path] = entry
    assert cache.pin("d", 10) is None, "everything is pinned"
    cache.unpin(entries["c"])
    cache.unpin(entries["b"])
    cache.finished("c")
    assert cache.pin("d", 10) is not None
    assert cache.counts.evictions == 2, "down to 95%: c was finished, b is older than none"
    again = cache.pin("a", 10)
    assert again is entries["a"]
