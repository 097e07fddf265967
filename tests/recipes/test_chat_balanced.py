"""Packs that are dealt to ranks by what attention costs: the global batch stays, and ranks get equal work."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.feed import Feed
from penstock.observe.lineage import lineage
from penstock.observe.lines import read_lines
from penstock.observe.proof import prove
from tests.recipes import chat_runs

RANKS = 4
STEPS = 6


def records(count: int) -> list[dict[str, Any]]:
    """Texts from a word to a whole pack."""
    lengths = np.random.default_rng(0).lognormal(2.0, 1.0, count).astype(int) + 1
    return [
        {"text": f"{number}: " + "word " * length} for number, length in enumerate(np.minimum(lengths, 60).tolist())
    ]


@pytest.fixture
def data(tmp_path: Path) -> list[dict[str, Any]]:
    return [chat_runs.source(chat_runs.write_records(tmp_path, records(600)), "text")]


def opened(data: list[dict[str, Any]], **options: Any) -> Feed:
    return chat_runs.run(data, batch_size=None, global_batch_size=4 * RANKS, pack=True, seed=5, **options)


def names(batch: dict[str, Any]) -> list[tuple[str, ...]]:
    return [tuple(ids) for ids in batch["ids"]]


def test_the_global_batch_is_the_same_and_ranks_have_about_the_same_cost(data: list[dict[str, Any]]) -> None:
    balanced = opened(data, balance=True)
    plain = opened(data)
    found, before = [], []
    for step in range(STEPS):
        ranks = [balanced.batch(step, rank, RANKS) for rank in range(RANKS)]
        whole = plain.batch(step, 0, 1)
        assert sorted(name for batch in ranks for name in names(batch)) == sorted(names(whole))
        assert [len(batch["ids"]) for batch in ranks] == [4] * RANKS
        alone = balanced.batch(step, 0, 1)
        assert names(alone) == names(whole)
        cost_of = dict(zip(names(alone), alone["cost"].tolist(), strict=True))
        for batch in ranks:
            assert batch["cost"].tolist() == [cost_of[name] for name in names(batch)]
        sums = [int(batch["cost"].sum()) for batch in ranks]
        found.append(max(sums) / np.mean(sums))
        parts = [sum(cost_of[name] for name in names(plain.batch(step, rank, RANKS))) for rank in range(RANKS)]
        before.append(max(parts) / np.mean(parts))
    assert np.mean(found) < 1.15 < np.mean(before) or np.mean(found) < np.mean(before) - 0.1


def test_the_cost_is_the_sum_of_squared_lengths(data: list[dict[str, Any]]) -> None:
    batch = opened(data, balance=True).batch(0, 1, RANKS)
    for row, ids, cost in zip(batch["position_ids"].numpy(), batch["ids"], batch["cost"].tolist(), strict=True):
        lengths = np.diff(np.append(np.flatnonzero(row == 0), len(row)))[: len(ids)]  # without padding at the end
        assert (lengths**2).sum() == cost


def test_where_and_the_ledger_know_which_rank_had_a_pack(data: list[dict[str, Any]], tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    for rank in range(RANKS):
        feed = opened(data, balance=True, usage={"log": str(log), "every": 2, "ids": True}, rank=rank, world=RANKS)
        with feed.loader(threads=0) as loader:
            batches = [next(loader) for _ in range(STEPS)]
            loader.state_dict()
        for batch in batches:
            for slot, row in enumerate(batch["rows"].tolist()):
                [use] = [
                    each
                    for each in feed.uses(row, range(20), RANKS, feed.timeline(RANKS))
                    if each.step == batch["step"]
                ]
                assert (use.rank, use.slot) == (rank, slot)
    lines = list(read_lines(log))
    proof = prove(feed, lines, lineage(lines))
    assert proof.wrong == []
    plain = opened(data, rank=0, world=RANKS)
    assert prove(plain, lines, lineage(lines)).wrong, "ranks had other packs"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pack": False}, "balance: only packs are dealt by cost, and a has none; set chat: {pack: true}"),
        ({"passes": 1}, "balance: is for endless runs of packs; remove it, or `passes`"),
        ({"lanes": 2}, "balance: would give ranks of one lane the packs of another; remove it, or `lanes`"),
    ],
)
def test_what_it_is_not_for_is_refused(data: list[dict[str, Any]], options: dict[str, Any], message: str) -> None:
    with pytest.raises(penstock.ConfigError) as caught:
        chat_runs.run(data, **{"pack": True, "batch_size": 4, "balance": True, **options})
    assert message in str(caught.value)
