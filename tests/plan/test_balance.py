"""Columns of a global batch that are dealt to ranks by cost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.plan.balance import deal_by_cost
from penstock.text.packs import deal


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40), st.data())
def test_every_column_is_dealt_once_in_the_sizes_of_the_ranks(costs: list[int], data: st.DataObject) -> None:
    world = data.draw(st.integers(1, 8))
    sizes = [(rank + 1) * len(costs) // world - rank * len(costs) // world for rank in range(world)]
    order = deal_by_cost(np.array(costs), sizes)
    assert sorted(order.tolist()) == list(range(len(costs)))
    for own in np.split(order, np.cumsum(sizes)[:-1]):
        assert own.tolist() == sorted(own.tolist()), "a rank's columns stay in the order of the batch"


@pytest.mark.parametrize(("per_rank", "most"), [(4, 1.1), (16, 1.02)])
def test_packs_of_4096_tokens_cost_every_rank_about_the_same(per_rank: int, most: float) -> None:
    """Samples of 600 tokens on average, as chat data has them."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(np.log(600) - 0.5, 1.0, 8_192).astype(np.int64), 8, 4_096)
    packs = deal(lengths, 4_096, 1)
    costs = np.array([sum(int(lengths[member]) ** 2 for member in members) for members in packs])
    found = []
    before = []
    for _ in range(40):
        batch = rng.choice(costs, 8 * per_rank)
        order = deal_by_cost(batch, [per_rank] * 8)
        sums = batch[order].reshape(8, per_rank).sum(1)
        found.append(sums.max() / sums.mean())
        before.append(batch.reshape(8, per_rank).sum(1).max() / sums.mean())
    assert np.mean(found) <= most < np.mean(before)
