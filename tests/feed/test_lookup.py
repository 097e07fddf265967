"""What a batch is to hold does not depend on which other batches were looked up with it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.feed import Feed
from penstock.feed.lookup import Looked, Lookup
from penstock.feed.steps import Steps
from penstock.plan.order import Planned
from penstock.plan.plan import Plan
from penstock.plan.timeline import Timeline
from tests.shards import small_run, write_shards


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder)
    return folder


def opened(folder: Path, **options: Any) -> Feed:
    return penstock.open(small_run(folder, batch_size=6, **options))


class Counted:
    """A plan that notes which steps it was asked for, and how often."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.asked = Counter[int]()
        self.questions = 0

    def batches(self, steps: Sequence[int], *whose: Any) -> Planned:
        self.asked.update(steps)
        self.questions += 1
        return self._plan.batches(steps, *whose)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plan, name)


def lookup_of(feed: Feed, steps: Steps, rank: int = 0, world: int = 1, plan: Any = None) -> Lookup:
    return Lookup(plan or feed.plan, feed.catalog, rank, world, feed.timeline(world), steps)


def plain(looked: Looked) -> Any:
    return looked.slots.tolist(), [(share.at.tolist(), share.items, share.uses.row.tolist()) for share in looked.shares]


def alone(feed: Feed, step: int, rank: int = 0, world: int = 1) -> Any:
    return plain(lookup_of(feed, Steps(step, step + 1), rank, world).at(step))


@pytest.mark.parametrize("asked", [range(50), range(49, 0, -1), range(3, 200, 7), [5, 5, 900, 4, 6, 0, 901]])
@pytest.mark.parametrize("options", [{}, {"passes": 2}, {"lanes": 2}], ids=str)
def test_in_any_order_as_each_alone(folder: Path, asked: Any, options: dict[str, Any]) -> None:
    feed = opened(folder, **options)
    steps = [step for step in asked if "passes" not in options or step < len(feed)]
    lookup = lookup_of(feed, feed.remaining())
    assert [plain(lookup.at(step)) for step in steps] == [alone(feed, step) for step in steps]


@pytest.mark.parametrize(("rank", "world"), [(0, 1), (0, 2), (1, 2), (2, 3)])
def test_each_rank_looks_up_its_own(folder: Path, rank: int, world: int) -> None:
    feed = opened(folder)
    lookup = lookup_of(feed, Steps(0), rank, world)
    for step in range(10):
        planned = feed.planned(step, rank, world)
        looked = lookup.at(step)
        assert looked.slots.tolist() == planned.slot.tolist()
        assert [item.row for share in looked.shares for item in share.items] == feed.catalog.rows(planned)


@pytest.mark.parametrize("stride", [1, 2, 8])
@pytest.mark.parametrize("window", [0, 33])
def test_each_step_of_a_walk_is_planned_once_several_at_a_time(folder: Path, stride: int, window: int) -> None:
    feed = opened(folder)
    plan = Counted(feed.plan)
    lookup = lookup_of(feed, Steps(3, 3 + 400 * stride, stride), plan=plan)
    for step in range(3, 3 + 400 * stride, stride):
        lookup.upto(step, step + window * stride)  # as what fetches ahead asks
        lookup.at(step)
        lookup.done(step)
    assert plan.asked == Counter(range(3, 3 + 400 * stride, stride))
    assert window or plan.questions < 400 / 15


def test_threads_that_ask_a_little_out_of_order_plan_no_step_twice(folder: Path) -> None:
    feed = opened(folder)
    plan = Counted(feed.plan)
    lookup = lookup_of(feed, Steps(0), plan=plan)
    for first in range(0, 300, 3):
        for step in (first + 2, first, first + 1):
            assert plain(lookup.at(step)) == alone(feed, step)
            lookup.done(step)
    assert set(plan.asked.values()) == {1}


def test_no_step_behind_the_end_is_planned_and_none_is_there(folder: Path) -> None:
    feed = opened(folder, passes=10)
    plan = Counted(feed.plan)
    lookup = lookup_of(feed, Steps(len(feed) - 2), plan=plan)
    assert [looked.step for looked in lookup.upto(len(feed) - 2, len(feed) + 30)] == [len(feed) - 2, len(feed) - 1]
    assert plan.asked == Counter([len(feed) - 2, len(feed) - 1])
    with pytest.raises(IndexError, match=f"step {len(feed)}: the run has {len(feed)} steps"):
        lookup.at(len(feed))


def test_a_batch_size_that_can_not_be_shared_fails_the_steps_that_have_it(folder: Path) -> None:
    feed = opened(folder)
    timeline = Timeline.constant(6).changed(40, 7)  # three ranks can share 6 samples, not 7
    lookup = Lookup(feed.plan, feed.catalog, 1, 3, timeline, Steps(0))
    with pytest.raises(ValueError, match="a global batch of 7 does not divide over 3 ranks"):
        lookup.at(40)


def test_steps_in_no_order_are_planned_alone(folder: Path) -> None:
    feed = opened(folder)
    plan = Counted(feed.plan)
    lookup = lookup_of(feed, Steps(1_000), plan=plan)
    for step in [900, 100_000, 7, 20_000, 3_000]:
        lookup.at(step)
    assert sum(plan.asked.values()) == plan.questions == 5
