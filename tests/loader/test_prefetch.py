"""How far ahead of its caller a loader works."""

import threading
from typing import Any

import pytest

from penstock.feed.feed import Made, Steps
from penstock.loader import Loader


class CountingFeed:
    """Makes empty batches, and notes which steps were asked for."""

    def __init__(self, enough: int) -> None:
        self.asked, self.reached, self._enough = list[int](), threading.Event(), enough

    def steps(self, start: int) -> Steps:
        return Steps(start, None)

    def made(self, step: int) -> Made:
        self.asked.append(step)
        if len(self.asked) == self._enough:
            self.reached.set()
        return Made({}, {"step": step, "ids": [], "bad": []})


@pytest.mark.parametrize("prefetch", [1, 4])
def test_each_thread_is_as_many_batches_ahead_as_asked(prefetch: int) -> None:
    feed: Any = CountingFeed(enough=2 * prefetch)
    with Loader(feed, threads=2, prefetch=prefetch) as loader:
        assert next(loader)["step"] == 0
        assert feed.reached.wait(30)
    assert sorted(feed.asked) == list(range(2 * prefetch))  # and not one more


def test_a_loader_that_is_never_ahead_is_refused() -> None:
    with pytest.raises(ValueError, match="prefetch is 1 or more, not 0"):
        Loader(CountingFeed(enough=1), prefetch=0)  # type: ignore[arg-type]
