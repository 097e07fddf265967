"""Lanes: fixed parts of every source, so that a node reads the same groups epoch after epoch. Knows no epochs."""

from dataclasses import dataclass

import numpy as np

from penstock.plan.draws import Ints, key, permutation

_MIN_ITEMS_PER_LANE = 1_000  # a source with fewer is not split


@dataclass(frozen=True, slots=True)
class Share:
    """One lane's part of a source: pieces of groups. Only the first and the last piece may be less than a group.

    Attributes:
        group: Group of each piece.
        first: First item of each piece in its group, in file order: a piece is one byte range.
        size: Number of items of each piece.
    """

    group: Ints
    first: Ints
    size: Ints

    def holds(self, group: Ints, item: Ints) -> Ints:
        """Return which of some items the share holds, as their numbers."""
        pieces = np.argsort(self.group)
        at = np.minimum(self.group[pieces].searchsorted(group), len(pieces) - 1)
        piece = pieces[at]
        within = (self.first[piece] <= item) & (item < self.first[piece] + self.size[piece])
        return np.flatnonzero((self.group[piece] == group) & within)


def is_split(sizes: Ints, residents: int, lanes: int, limit: int | None = None) -> bool:
    """Return whether a source is split into lanes. All lanes draw from one common stream of a small source.

    A source is small by its items per epoch: with a limit below the number of lanes, a lane would have no items.

    Args:
        sizes: Items per group.
        residents: Number of resident groups per lane.
        lanes: Number of lanes.
        limit: Maximum number of items per epoch; None for all.
    """
    items = int(sizes.sum()) if limit is None else min(int(sizes.sum()), limit)
    return lanes > 1 and len(sizes) >= residents * lanes and items >= _MIN_ITEMS_PER_LANE * lanes


def whole(sizes: Ints) -> Share:
    """Return all of a source as one share."""
    return Share(np.arange(len(sizes)), np.zeros(len(sizes), dtype=np.int64), sizes.astype(np.int64))


def deal(sizes: Ints, lanes: int, seed: int, source: str) -> list[Share]:
    """Shuffle the groups of a source, once for the whole run, and cut it into lanes of equal numbers of items (±1)."""
    order = permutation(key(seed, "deal", source), len(sizes))
    ends = np.cumsum(sizes[order])
    cuts = int(ends[-1]) * np.arange(lanes + 1) // lanes
    return [_cut(order, ends, int(cuts[lane]), int(cuts[lane + 1])) for lane in range(lanes)]


def lane_limit(limit: int, items: int, lane: int, lanes: int) -> int:
    """Return one lane's part of a limit of items per epoch.

    The parts of all lanes add up to ``limit``, and none exceeds its lane: the limit is cut where ``deal`` cuts the
    items, scaled down. An even cut could exceed a lane by one.
    """
    low, high = (items * i // lanes * limit // items for i in (lane, lane + 1))
    return high - low


def _cut(order: Ints, ends: Ints, low: int, high: int) -> Share:
    begins = np.concatenate([[0], ends[:-1]])
    inside = slice(int(np.searchsorted(ends, low, side="right")), int(np.searchsorted(begins, high, side="left")))
    start = np.maximum(begins[inside], low)
    return Share(order[inside], start - begins[inside], np.minimum(ends[inside], high) - start)
