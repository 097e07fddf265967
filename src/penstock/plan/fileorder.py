"""One source in file order, pass after pass: an endless list of items with random access, as ``Stream`` is."""

from itertools import chain, islice

import numpy as np

from penstock.plan.draws import Ints
from penstock.plan.growing import Growing, Known
from penstock.plan.stream import Picks

_ALL = 1 << 62  # more items than any source has


class FileOrder:
    """The items of a source group by group, in the order of their files. An epoch of the source is one pass over it.

    A growing index is asked for no more items than an answer needs. Where a pass ends is known when the index is
    complete or holds as many items as the limit.

    Args:
        sizes: items per group, or an index that grows.
        residents: groups that are resident at a time: the one at the index, and those after it.
        name: the name of the source.
        limit: at most this many items per epoch; None for all.
        repeat: how many times in a row each item comes.
    """

    def __init__(
        self, sizes: Ints | Growing, residents: int, name: str, *, limit: int | None = None, repeat: int = 1
    ) -> None:
        self._groups: Growing = Known(sizes) if isinstance(sizes, np.ndarray) else sizes
        self._residents = residents
        self._name = name
        self._limit = _ALL if limit is None else limit
        self._repeat = repeat

    @property
    def items(self) -> int:
        """Items per epoch. Without a limit, a growing index becomes complete."""
        return self._items(self._starts(_ALL))

    @property
    def length(self) -> int:
        """Indices per epoch."""
        return self.items * self._repeat

    def picks(self, index: Ints) -> Picks:
        """Return the items at these indices of the endless list. The indices may be in any order."""
        nth, repeat = np.divmod(index, self._repeat)
        starts = self._starts(int(nth.max(initial=0)) + 1)
        epoch, position = np.divmod(nth, self._items(starts))
        group = starts.searchsorted(position, side="right") - 1
        return Picks(epoch, repeat, group, position - starts[group])

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
        before = epoch * self.items if epoch else 0  # the first epoch needs no index of the whole source
        return (before + position) * self._repeat + np.arange(self._repeat)

    def neighbour(self, index: int, attempt: int) -> int:
        """Return the index of the item that replaces a bad one: another index of the same group.

        Args:
            index: the index of the bad item.
            attempt: 1 for the first substitute, 2 for the next, and so on.
        """
        nth, repeat = divmod(index, self._repeat)
        starts = self._starts(nth + 1)
        items = self._items(starts)
        position = nth % items
        group = _group_at(starts, position)
        low = int(starts[group])
        high = min(int(starts[group + 1]), items)
        instead = low + (position - low + attempt) % (high - low)
        return (nth - position + instead) * self._repeat + repeat

    def residents(self, index: int) -> list[int]:
        """Return the groups that are resident at an index: its own and those after it, then those of the next pass.

        Only groups that are known: an index that grows reads the others when it gets there, and not for this.
        """
        nth = index // self._repeat
        complete = self._groups.complete  # asked first, as another thread may extend the index in between
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
        """Return where groups begin: of so many items, or of a whole pass if that is less."""
        return self._groups.starts(min(items, self._limit))

    def _items(self, starts: Ints) -> int:
        """Return the items of a pass or, if its end is not known yet, those that are known."""
        if not starts[-1]:
            raise ValueError(f"source {self._name!r} has no items")
        return min(int(starts[-1]), self._limit)

    def _starts_with(self, group: int) -> Ints:
        """Return where groups begin, including a given group unless a pass ends before it."""
        while True:
            complete = self._groups.complete
            starts = self._groups.starts(0)
            if complete or starts[-1] >= self._limit or group + 1 < len(starts):
                return starts
            self._groups.starts(int(starts[-1]) + 1)


def _group_at(starts: Ints, position: int) -> int:
    return int(starts.searchsorted(position, side="right")) - 1
