"""Lanes: a fixed part of every source, so that a node reads its own groups epoch after epoch."""

from dataclasses import dataclass

import numpy as np

from penstock.plan.draws import Ints, key, permutation

_FEW_ITEMS = 1_000  # a lane; a source with less is not split


@dataclass(frozen=True, slots=True)
class Share:
    """What one lane has of a source: pieces of groups. Only the pieces on a lane's two borders are not whole groups."""

    group: Ints
    first: Ints  # item of the group that the piece begins with, in file order: a piece is one byte range
    size: Ints


def is_split(sizes: Ints, residents: int, lanes: int, limit: int | None = None) -> bool:
    """Whether a source is dealt to lanes. A small one is not: all lanes draw from one common stream of it.

    A source is as small as its epochs: a limit of fewer items than lanes would leave a lane with none.
    """
    items = int(sizes.sum()) if limit is None else min(int(sizes.sum()), limit)
    return lanes > 1 and len(sizes) >= residents * lanes and items >= _FEW_ITEMS * lanes


def whole(sizes: Ints) -> Share:
    """All of a source."""
    return Share(np.arange(len(sizes)), np.zeros(len(sizes), dtype=np.int64), sizes.astype(np.int64))


def deal(sizes: Ints, lanes: int, seed: int, source: str) -> list[Share]:
    """Cut a source, its groups shuffled once for the whole run, into lanes of equal numbers of items (±1)."""
    order = permutation(key(seed, "deal", source), len(sizes))
    ends = np.cumsum(sizes[order])
    cuts = int(ends[-1]) * np.arange(lanes + 1) // lanes
    return [_cut(order, ends, int(cuts[lane]), int(cuts[lane + 1])) for lane in range(lanes)]


def lane_limit(limit: int, items: int, lane: int, lanes: int) -> int:
    """One lane's part of an epoch's limit: the limits of all lanes add up to it, and none is above what its lane has.

    So it is cut where ``deal`` cuts the items, scaled down; cutting it evenly could give a lane one more than it has.
    """
    low, high = (items * i // lanes * limit // items for i in (lane, lane + 1))
    return high - low


def _cut(order: Ints, ends: Ints, low: int, high: int) -> Share:
    begins = np.concatenate([[0], ends[:-1]])
    inside = slice(int(np.searchsorted(ends, low, side="right")), int(np.searchsorted(begins, high, side="left")))
    start = np.maximum(begins[inside], low)
    return Share(order[inside], start - begins[inside], np.minimum(ends[inside], high) - start)
