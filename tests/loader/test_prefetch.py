"""How far ahead of its caller a loader works."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.feed.batches import MadeBatch, MadeUnits
from penstock.feed.meter import Meter
from penstock.feed.steps import Steps
from penstock.loader import Loader
from tests.loader.feeds import Walked


class CountingFeed:
    """Makes empty batches, and notes which steps were asked for."""

    config = SimpleNamespace(max_bad=1.0)

    def __init__(self, enough: int) -> None:
        self.asked: list[int] = []
        self.reached = threading.Event()
        self._enough = enough
        self.meter = Meter()

    def remaining(self, start: int) -> Steps:
        return Steps(start)

    def walk(self, steps: Steps) -> Walked:
        return Walked(self._units, steps)

    def _units(self, step: int) -> MadeUnits:
        self.asked.append(step)
        if len(self.asked) == self._enough:
            self.reached.set()
        return [MadeBatch(step, {"raw": {}}, {"raw": {"ids": [], "sources": [], "bad": []}})]


@pytest.mark.parametrize("prefetch", [1, 4])
def test_each_thread_is_as_many_batches_ahead_as_asked(prefetch: int) -> None:
    feed: Any = CountingFeed(enough=2 * prefetch)
    with Loader(feed, threads=2, prefetch=prefetch) as loader:
        assert next(loader)["step"] == 0
        assert feed.reached.wait(30)
    assert sorted(feed.asked) == list(range(2 * prefetch))  # and not one more


def test_a_loader_that_is_never_ahead_is_refused() -> None:
    with pytest.raises(ValueError, match="prefetch must be 1 or more, not 0"):
        Loader(CountingFeed(enough=1), prefetch=0)  # type: ignore[arg-type]
