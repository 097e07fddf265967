"""The rolling pool: the order of one source, in one lane, for one epoch.

Groups come in a shuffled order; K of them are resident at a time. The epoch is cut into chunks; from one chunk to the
next, one group leaves and one enters. The items of a group are permuted and split evenly over the chunks in which it is
resident. A chunk is the shuffled union of the parts of its residents:

    chunk         0      1      2      3          K = 3 residents, G = 6 groups
    group 0     [all]
    group 1     [half] [half]
    group 2     [1/3]  [1/3]  [1/3]
    group 3            [1/3]  [1/3]  [1/3]
    group 4                   [half] [half]
    group 5                          [all]

Every item comes exactly once, and a chunk draws from at most K groups. The number of items before a chunk is a closed
form over its residents: the item at a position is found by bisection, the position of an item by the same sums, both
without replay. The first and the last chunk are larger than the others.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.plan.draws import Ints, inverse, key, permutation, permutations, ranges, words

_BLOCK_ITEMS = 4096  # about the minimum per block, so that a tiny group does not need a block of its own
_TRIED_CHUNKS = 12  # at once, by a search: a call of numpy takes hardly longer for several than for one


@dataclass(frozen=True, slots=True)
class Block:
    """The items of consecutive chunks.

    Attributes:
        start: Position of the first item in the epoch.
        group: Group of each item.
        item: Number of each item in its group.
    """

    start: int
    group: Ints
    item: Ints


@dataclass(frozen=True, slots=True)
class _Parts:
    """The part of each resident group in some chunks, as arrays of shape (chunks, residents).

    Attributes:
        place: Place of the group in the order of the epoch.
        start: First item of the part in the permutation of the group.
        count: Number of items of the part.
    """

    place: Ints
    start: Ints
    count: Ints


class Pool:
    """One epoch of a list of groups. Equal arguments give equal orders.

    Args:
        sizes: Items per group.
        residents: Number of resident groups.
        seed: Key of this epoch.
    """

    def __init__(self, sizes: Ints, residents: int, seed: int) -> None:
        self._residents = min(residents, len(sizes))
        self._last = len(sizes) - self._residents  # the last chunk
        self._order = permutation(key(seed, "order"), len(sizes))
        self._sizes = sizes[self._order].astype(np.int64)
        self._before = np.concatenate([[0], np.cumsum(self._sizes)])
        self._phase_key = key(seed, "phase")
        self._item_key = key(seed, "items")
        self._chunk_key = key(seed, "chunk")

    @property
    def length(self) -> int:
        return int(self._before[-1])

    @cached_property
    def _place(self) -> Ints:
        return inverse(self._order)

    def block_at(self, position: int, *, walking: bool = False) -> Block:
        """Return the block whose first chunk holds a position.

        A block permutes all groups that are resident in it. Sequential access therefore uses blocks of many chunks,
        random access blocks of few.

        Args:
            position: Position in the epoch.
            walking: Whether access is sequential.
        """
        chunk = self._chunk_at(position)
        mean = max(1, self.length // (self._last + 1))
        chunks = max(1 + self._residents // 4 if walking else 1, _BLOCK_ITEMS // mean)
        return self._block(chunk, min(chunk + chunks, self._last + 1))

    def items_at(self, positions: Ints) -> tuple[Ints, Ints]:
        """Return group and item at those positions that lie in the chunk of the first of them.

        Only the groups of these items are permuted.

        Args:
            positions: Positions in the epoch, in ascending order.
        """
        chunk = self._chunk_at(int(positions[0]))
        parts = self._parts(np.array([chunk]))
        counts = parts.count[0]
        ends = np.cumsum(counts)
        start = int(self._before[chunk] + parts.start.sum())
        inside = positions[: positions.searchsorted(start + int(ends[-1]))] - start
        index = permutation(int(words(self._chunk_key, np.array([chunk]))[0]), int(ends[-1]))[inside]
        nth = ends.searchsorted(index, side="right")
        index += parts.start[0, nth] + counts[nth] - ends[nth]
        place = chunk + nth
        group = self._order[place]
        if len(place) == 1:
            return group, permutation(int(words(self._item_key, group)[0]), int(self._sizes[place[0]]))[index]
        place, which = np.unique(place, return_inverse=True)
        sizes = self._sizes[place]
        permuted = permutations(words(self._item_key, self._order[place]), sizes)
        return group, permuted[(np.cumsum(sizes) - sizes)[which] + index]

    def chunk_bounds(self, position: int) -> tuple[int, int]:
        """Return the positions at which the chunk around a position begins and ends."""
        chunk = self._chunk_at(position)
        low, high = self._items_before(np.array([chunk, min(chunk + 1, self._last)])).tolist()
        return low, self.length if chunk == self._last else high

    def residents(self, position: int) -> Ints:
        """Return the groups that are resident in the chunk around a position."""
        chunk = self._chunk_at(position)
        return self._order[chunk : chunk + self._residents]

    def stays(self) -> tuple[Ints, Ints, Ints]:
        """Return all groups, the position at which each becomes resident, and the one from which on it is not."""
        first, span, _ = self._spans(np.arange(len(self._sizes)))
        starts = np.append(self._items_before(np.arange(self._last + 1)), self.length)
        return self._order, starts[first], starts[first + span]

    def position(self, group: int, item: int) -> int:
        """Return the position of an item in the epoch: the inverse of the order."""
        place = int(self._place[group])
        size = int(self._sizes[place])
        first, span, phase = (int(x[0]) for x in self._spans(np.array([place])))
        index = int(np.flatnonzero(self._permuted(place, place + 1) == item)[0])
        chunk = first + ((index + 1) * span - phase - 1) // size
        block = self._block(chunk, chunk + 1)
        return block.start + int(np.flatnonzero((block.group == group) & (block.item == item))[0])

    def _spans(self, place: Ints) -> tuple[Ints, Ints, Ints]:
        """Return first chunk, number of chunks, and phase of the groups at these places of the epoch's order.

        The phase shifts the boundaries of the parts, so that the items of small groups do not gather at the end of
        their span.
        """
        first = np.maximum(0, place - self._residents + 1)
        span = np.minimum(place, self._last) - first + 1
        phase = words(self._phase_key, self._order[place]) % span.astype(np.uint64)
        return first, span, phase.astype(np.int64)

    def _parts(self, chunk: Ints) -> _Parts:
        place = chunk[:, None] + np.arange(self._residents)
        first, span, phase = self._spans(place)
        size = self._sizes[place]
        nth = chunk[:, None] - first
        start = (nth * size + phase) // span
        return _Parts(place, start, ((nth + 1) * size + phase) // span - start)

    def _items_before(self, chunk: Ints) -> Ints:
        before: Ints = self._before[chunk] + self._parts(chunk).start.sum(axis=1)
        return before

    def _chunk_at(self, position: int) -> int:
        low = 0
        high = self._last
        # About half of the items of all residents but one come before a chunk.
        half = (self._residents - 1) * self.length // (2 * len(self._sizes))
        guess = int(self._before.searchsorted(position - half)) - 1
        tried = np.arange(max(1, guess - _TRIED_CHUNKS // 2), min(high, guess + _TRIED_CHUNKS // 2) + 1)
        while low < high:
            if not len(tried):
                tried = np.arange(low + 1, high + 1, 1 + (high - low) // _TRIED_CHUNKS)
            count = int(self._items_before(tried).searchsorted(position, side="right"))
            if count < len(tried):
                high = int(tried[count]) - 1
            if count:
                low = int(tried[count - 1])
            tried = tried[:0]
        return low

    def _permuted(self, low: int, high: int) -> Ints:
        """Return the items of the groups at places low … high - 1, each group permuted, concatenated."""
        return permutations(words(self._item_key, self._order[low:high]), self._sizes[low:high])

    def _block(self, low: int, high: int) -> Block:
        """Return the block of chunks low … high - 1."""
        parts = self._parts(np.arange(low, high))
        counts = parts.count.ravel()
        last_place = high - 1 + self._residents
        place = np.repeat(parts.place.ravel(), counts)
        index = np.repeat(parts.start.ravel(), counts) + ranges(counts)
        item = self._permuted(low, last_place)[self._before[place] - self._before[low] + index]
        sizes = parts.count.sum(axis=1)
        ends = np.cumsum(sizes)
        shuffled = permutations(words(self._chunk_key, np.arange(low, high)), sizes)
        shuffled += np.repeat(ends - sizes, sizes)
        start = int(self._before[low] + parts.start[0].sum())
        return Block(start, self._order[place[shuffled]], item[shuffled])
