"""One source in file order, pass after pass: an endless list of items with random access, like ``Stream``."""

from itertools import chain, islice

import numpy as np

from penstock.plan.draws import Ints
from penstock.plan.growing import Growing, Known
from penstock.plan.stream import Picks
from penstock.plan.windows import NextItems

_ALL_ITEMS = 1 << 62  # more than any source has


class FileOrder:
    """The items of a source in the order of its files. An epoch is one pass over the source.

    A growing index is extended only as far as an answer needs. The end of a pass is known once the index is complete or
    holds as many items as the limit.

    Args:
        sizes: Items per group, or a growing index.
        residents: Number of resident groups: the one at the index, and those after it.
        name: Name of the source.
        limit: Maximum number of items per epoch; None for all.
        repeat: Number of times in a row that each item comes.
    """

    def __init__(
        self, sizes: Ints | Growing, residents: int, name: str, *, limit: int | None = None, repeat: int = 1
    ) -> None:
        self._groups: Growing = Known(sizes) if isinstance(sizes, np.ndarray) else sizes
        self._residents = residents
        self._name = name
        self._limit = _ALL_ITEMS if limit is None else limit
        self._repeat = repeat

    def count_items(self) -> int:
        """Return the number of items per epoch. Without a limit, this completes a growing index."""
        return self._items(self._starts(_ALL_ITEMS))

    def count_indices(self) -> int:
        """Return the number of indices per epoch. Without a limit, this completes a growing index."""
        return self.count_items() * self._repeat

    def picks(self, index: Ints) -> Picks:
        """Return the items at these indices of the endless list. The indices may be in any order."""
        nth, repeat = np.divmod(index, self._repeat)
        starts = self._starts(int(nth.max(initial=0)) + 1)
        epoch, position = np.divmod(nth, self._items(starts))
        group = starts.searchsorted(position, side="right") - 1
        return Picks(epoch, repeat, group, position - starts[group])

    def ahead(self, nth: int, most: int) -> NextItems | None:
        """Return up to ``most`` items from an item on, at most to the end of its pass; None while the index grows."""
        if not self._groups.complete:
            return None
        items = self.count_items()
        following = np.arange(nth, min(nth + most, (nth // items + 1) * items))
        picks = self.picks(following * self._repeat)
        return NextItems(nth, picks.group, picks.item, items)

    def indices(self, group: int, item: int, epoch: int) -> Ints:
        """Return every index at which an item comes in an epoch.

        Returns:
            An empty array if the limit leaves the item out, or there is no such item.
        """
        starts = self._starts_with(group)
        if group + 1 >= len(starts):
            return np.empty(0, dtype=np.int64)
        position = int(starts[group]) + item
        if position >= min(int(starts[group + 1]), self._limit):
            return np.empty(0, dtype=np.int64)
        before = epoch * self.count_items() if epoch else 0  # the first epoch needs no index of the whole source
        return (before + position) * self._repeat + np.arange(self._repeat)

    def neighbour(self, index: int, attempt: int) -> int:
        """Return the index of the item that replaces a bad one: another index of the same group.

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
        """Return where the group around an item of the endless list begins and ends, in items."""
        starts = self._starts(nth + 1)
        items = self._items(starts)
        position = nth % items
        group = _group_at(starts, position)
        low = nth - position + int(starts[group])
        return low, nth - position + min(int(starts[group + 1]), items)

    def residents(self, index: int) -> list[int]:
        """Return the resident groups at an index: its own and those after it, then those of the next pass.

        Only known groups are included: a growing index is not extended for this.
        """
        nth = index // self._repeat
        complete = self._groups.complete  # read first: another thread may extend the index in between
        starts = self._groups.starts(0)
        ended = complete or starts[-1] >= self._limit
        if nth >= starts[-1] and not ended:
            return []
        items = self._items(starts)
        group = _group_at(starts, nth % items)
        last = _group_at(starts, items - 1)
        following = chain(range(group, last + 1), range(group) if ended else ())
        return list(islice((each for each in following if starts[each] < starts[each + 1]), self._residents))

    def _starts(self, items: int) -> Ints:
        """Return where groups begin, for a number of items or a whole pass, whichever is less."""
        return self._groups.starts(min(items, self._limit))

    def _items(self, starts: Ints) -> int:
        """Return the number of items of a pass, or of the known part of it."""
        if not starts[-1]:
            raise ValueError(f"source {self._name!r} has no items")
        return min(int(starts[-1]), self._limit)

    def _starts_with(self, group: int) -> Ints:
        """Return where groups begin, including the given group unless a pass ends before it."""
        while True:
            complete = self._groups.complete
            starts = self._groups.starts(0)
            if complete or starts[-1] >= self._limit or group + 1 < len(starts):
                return starts
            self._groups.starts(int(starts[-1]) + 1)


def _group_at(starts: Ints, position: int) -> int:
    return int(starts.searchsorted(position, side="right")) - 1
