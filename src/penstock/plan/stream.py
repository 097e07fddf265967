"""One source in one lane, epoch after epoch: an endless list of items with random access."""

from dataclasses import dataclass

import numpy as np

from penstock.plan.draws import Ints, key
from penstock.plan.lanes import Share
from penstock.plan.pool import Pool
from penstock.plan.windows import NextItems

_ITEMS_PER_CALL = 5_000  # items that are permuted in the time of finding single items of a chunk
_NEAR_ITEMS = 4_096  # look-ups within as many items may belong to a walk


@dataclass(frozen=True, slots=True)
class Picks:
    """Items of a stream, as parallel arrays.

    Attributes:
        epoch: Epoch of the source.
        repeat: Number of the use, of several in a row, from 0.
        group: Number of the group in its source.
        item: Number of the item in its group.
    """

    epoch: Ints
    repeat: Ints
    group: Ints
    item: Ints


@dataclass(frozen=True, slots=True)
class _FoundItems:
    """Consecutive items of the stream, without repeats.

    Attributes:
        start: Index of the first item in the stream.
        groups: Group of each item.
        items: Number of each item in its group.
    """

    start: int
    groups: Ints
    items: Ints


class Stream:
    """The items of a share, shuffled anew each epoch by a rolling pool.

    Args:
        share: One lane's part of a source.
        residents: Number of resident groups.
        seed: Seed of the lane.
        name: Name of the source.
        limit: Maximum number of items per epoch; None for all.
        repeat: Number of times in a row that each item comes.

    Attributes:
        items: Items per epoch.
    """

    def __init__(
        self, share: Share, residents: int, seed: int, name: str, *, limit: int | None = None, repeat: int = 1
    ) -> None:
        self._share = share
        self._residents = residents
        self._seed = key(seed, "stream", name)
        self._repeat = repeat
        items = int(share.size.sum())
        self.items = items if limit is None else min(items, limit)
        # A block is planned once single items have cost as much. This is not at the same step for all streams, of which
        # there may be thousands.
        self._mean_size = max(1, items // max(1, len(share.size)))
        self._max_cost = 1 + min(residents, len(share.size)) * self._mean_size // _ITEMS_PER_CALL
        self._max_cost += self._seed % (self._max_cost + 3)
        self._singles = (0, 0)  # (item at which single items were last looked up, their cost since the walk began)
        self._pools: tuple[tuple[int, Pool], ...] = ()  # the latest; replaced whole, so threads need no lock
        self._found: tuple[_FoundItems, ...] = ()  # the latest
        self._resident: tuple[int, int, list[int]] = (0, 0, [])  # (first item, item after the last, their residents)

    def count_items(self) -> int:
        """Return the number of items per epoch."""
        return self.items

    def count_indices(self) -> int:
        """Return the number of indices per epoch."""
        return self.items * self._repeat

    def picks(self, index: Ints) -> Picks:
        """Return the items at these indices of the endless stream. The indices may be in any order."""
        nth = index // self._repeat if self._repeat > 1 else index
        found = np.empty((2, len(nth)), dtype=np.int64)
        rest = np.argsort(nth)
        while len(rest):
            first = int(nth[rest[0]])
            known = self._known(first)
            if known is None and self._is_walk(nth[rest]):
                known = self._block_from(first)
            if known is None:
                groups, items = self._single_items_at(nth[rest])
            else:
                at = nth[rest] - known.start
                at = at[: at.searchsorted(len(known.items))]
                groups, items = known.groups[at], known.items[at]
            found[:, rest[: len(items)]] = groups, items
            rest = rest[len(items) :]
        return Picks(nth // self.items, index % self._repeat, found[0], found[1])

    def ahead(self, nth: int, most: int) -> NextItems | None:
        """Return up to ``most`` items from an item on, as far as they are planned; None if the item is not."""
        known = self._known(nth)
        if known is None:
            return None
        here = slice(nth - known.start, nth - known.start + most)
        return NextItems(nth, known.groups[here], known.items[here], self.items)

    def indices(self, group: int, item: int, epoch: int) -> Ints:
        """Return every index at which an item comes in an epoch.

        Returns:
            An empty array if the limit leaves the item out or another lane has it.
        """
        of_group = np.flatnonzero(self._share.group == group)
        first = self._share.first[of_group]
        holding = of_group[(first <= item) & (item < first + self._share.size[of_group])]
        if not len(holding):
            return np.empty(0, dtype=np.int64)
        position = self._pool(epoch).position(int(holding[0]), item - int(self._share.first[holding[0]]))
        if position >= self.items:
            return np.empty(0, dtype=np.int64)
        return (epoch * self.items + position) * self._repeat + np.arange(self._repeat)

    def neighbour(self, index: int, attempt: int) -> int:
        """Return the index of the item that replaces a bad one: another index of the same chunk.

        Args:
            index: Index of the bad item.
            attempt: Number of the substitute, from 1.
        """
        nth, repeat = divmod(index, self._repeat)
        low, high = self.chunk_bounds(nth)
        return (low + (nth - low + attempt) % (high - low)) * self._repeat + repeat

    def stand_in(self, index: int, attempt: int) -> Picks:
        """Return the item that replaces a bad one; see ``neighbour``."""
        return self.picks(np.array([self.neighbour(index, attempt)]))

    def chunk_bounds(self, nth: int) -> tuple[int, int]:
        """Return where the chunk around an item of the stream begins and ends, in items."""
        epoch, position = divmod(nth, self.items)
        low, high = self._pool(epoch).chunk_bounds(position)
        return epoch * self.items + low, epoch * self.items + min(high, self.items)

    def stays(self, epoch: int) -> tuple[Ints, Ints, Ints]:
        """Return the groups of an epoch, the index at which each becomes resident, and the one from which on it is not.

        Groups that the limit leaves out are left out.
        """
        piece, begin, end = self._pool(epoch).stays()
        used = begin < self.items
        begin, end = ((epoch * self.items + np.minimum(each[used], self.items)) * self._repeat for each in (begin, end))
        return self._share.group[piece[used]], begin, end

    def residents(self, index: int) -> list[int]:
        """Return the groups that are resident at an index."""
        nth = index // self._repeat
        low, high, groups = self._resident
        if not low <= nth < high:
            epoch, position = divmod(nth, self.items)
            pool = self._pool(epoch)
            low, high = (epoch * self.items + bound for bound in pool.chunk_bounds(position))
            groups = self._share.group[pool.residents(position)].tolist()
            self._resident = low, high, groups
        return groups

    def _known(self, nth: int) -> _FoundItems | None:
        """Return planned items that include item ``nth`` of the stream."""
        for found in self._found:
            if found.start <= nth < found.start + len(found.items):
                return found
        return None

    def _is_walk(self, nth: Ints) -> bool:
        """Return whether to plan a block from the first of some items on, instead of single items."""
        first = int(nth[0])
        if self._continues(first):
            return True
        chunks = min(len(nth), 1 + (int(nth[-1]) - first) // self._mean_size)  # about
        last, before = self._singles
        cost = chunks + len(nth) * self._mean_size // _ITEMS_PER_CALL
        cost += before if 0 <= first - last < _NEAR_ITEMS else 0
        self._singles = first, cost
        return cost > self._max_cost

    def _continues(self, nth: int) -> bool:
        return any(nth == found.start + len(found.items) for found in self._found)

    def _block_from(self, nth: int) -> _FoundItems:
        """Plan items that include item ``nth`` of the stream."""
        epoch, position = divmod(nth, self.items)
        block = self._pool(epoch).block_at(position, walking=self._continues(nth))
        kept = slice(0, self.items - block.start)
        found = _FoundItems(epoch * self.items + block.start, *self._placed(block.group[kept], block.item[kept]))
        self._found = (found, *self._found[:1])
        return found

    def _single_items_at(self, nth: Ints) -> tuple[Ints, Ints]:
        """Return the items that are in the chunk of the first, of some items in ascending order."""
        epoch = int(nth[0]) // self.items
        position = nth[: nth.searchsorted((epoch + 1) * self.items)] - epoch * self.items
        return self._placed(*self._pool(epoch).items_at(position))

    def _placed(self, piece: Ints, item: Ints) -> tuple[Ints, Ints]:
        """Return groups of the source, and items in them, from those of the share."""
        return self._share.group[piece], self._share.first[piece] + item

    def _pool(self, epoch: int) -> Pool:
        for known, pool in self._pools:
            if known == epoch:
                return pool
        pool = Pool(self._share.size, self._residents, key(self._seed, epoch))
        self._pools = ((epoch, pool), *self._pools[:1])
        return pool
