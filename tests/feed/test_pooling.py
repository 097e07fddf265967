"""The pool over all sources: shared by weight, bounded, small in the state, and kept by a resumed run."""

import json

import pytest

import penstock
from penstock.feed.pooling import residents_of
from tests.feed.made import entry, made_run

LARGE = [entry(f"s{number}", *[500] * 30) for number in range(300)]  # 9,000 groups, all of which auto would keep


def test_a_total_is_shared_by_weight_with_at_least_one_group_per_source() -> None:
    changes = ((0, (70, 20, 9, 1, 0)), (500, (1, 1, 1, 1, 1)))
    assert residents_of({"total": 50, "each": 30}, changes, 5) == [30, 10, 4, 1, 10]
    assert residents_of({"total": 2, "each": 30}, changes, 5) == [1, 1, 1, 1, 1]
    assert residents_of({"total": 50, "each": 30}, (), 5) == [50] * 5, "one pool of a finite run"
    assert residents_of(7, changes, 5) == [7] * 5


def test_sources_that_come_later_leave_the_pool_of_the_others() -> None:
    before = ((0, (3, 1, 0)),)
    after = (*before, (90, (3, 1, 4)))
    pool = {"total": 16, "each": 64}
    assert residents_of(pool, before, 3)[:2] == residents_of(pool, after, 3)[:2] == [12, 4]


@pytest.mark.parametrize("pool", ["auto", {"total": 900}])
def test_many_sources_share_a_pool_that_the_state_holds(pool: object) -> None:
    run = made_run(*LARGE, pool=pool)
    total = 8_192 if pool == "auto" else 900
    slots = run.planned(7)
    resident = run.plan.order.residents(slots.slot)
    assert len(LARGE) <= len(resident) <= total
    state = run.state(7)
    assert state["pool"] == {"total": total, "each": 128}
    assert len(json.dumps(state)) < 1_000
    again = made_run(*LARGE, pool=pool)
    assert again.resume(json.loads(json.dumps(state))) == 7
    assert again.batch(7)["ids"] == run.batch(7)["ids"]


def test_few_sources_keep_their_pool() -> None:
    assert made_run(*LARGE[:270]).state(0)["pool"] == 128
    assert made_run(*LARGE[:274]).state(0)["pool"] == {"total": 8_192, "each": 128}
    assert made_run(*LARGE, passes=1).state(0)["pool"] == 128


def test_a_state_from_before_the_bound_keeps_its_pool() -> None:
    earlier = made_run(*LARGE, pool=128)
    now = made_run(*LARGE)
    assert now.resume(earlier.state(5)) == 5
    assert now.identity.pool == 128
    assert now.batch(5)["ids"] == earlier.batch(5)["ids"]


def test_another_total_is_another_run() -> None:
    few = LARGE[:3]
    state = made_run(*few, pool={"total": 6}).state(5)
    with pytest.raises(penstock.StateError, match=r"pool .*'total': 6.* then, .*'total': 9"):
        made_run(*few, pool={"total": 9}).resume(state)
    with pytest.raises(penstock.StateError, match="pool"):
        made_run(*few, pool=6).resume(state)
    assert made_run(*few, pool=state["pool"]).resume(state) == 5
    with pytest.raises(penstock.StateError, match="pool"):
        made_run(*few, pool=6).resume({**state, "pool": {"total": -1, "each": 2}})


@pytest.mark.parametrize("pool", [{"total": 0}, {"each": 3}, {"total": 3, "most": 4}, {"total": "3"}])
def test_a_pool_that_is_none_is_one_sentence(pool: object) -> None:
    with pytest.raises(penstock.ConfigError, match=r"pool: .* is not {total: number of groups"):
        made_run(*LARGE[:2], pool=pool)
