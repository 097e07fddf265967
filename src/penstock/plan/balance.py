"""Equal work for every rank: the columns of a global batch, dealt to ranks by cost. Knows no items."""

import heapq
from collections.abc import Sequence

import numpy as np

from penstock.plan.draws import Ints


def deal_by_cost(costs: Ints, sizes: Sequence[int]) -> Ints:
    """Return the columns of a global batch, those of rank 0 first, so that ranks have about the same cost.

    The most expensive columns are dealt first, each to the rank with the least cost that still has room. A rank gets
    its columns in the order of the batch.

    Args:
        costs: Cost of each column.
        sizes: Number of columns of each rank.

    Examples:
        >>> import numpy as np
        >>> deal_by_cost(np.array([9, 8, 1, 2]), [2, 2]).tolist()
        [0, 2, 1, 3]
    """
    left = list(sizes)
    ranks = [(0, rank) for rank, size in enumerate(sizes) if size]
    taken = np.empty(len(costs), dtype=np.int64)
    for column in np.argsort(-costs, kind="stable").tolist():
        cost, rank = heapq.heappop(ranks)
        taken[column] = rank
        left[rank] -= 1
        if left[rank]:
            heapq.heappush(ranks, (cost + int(costs[column]), rank))
    return np.argsort(taken, kind="stable")
