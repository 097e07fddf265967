"""Items that a run no longer draws. Their places go to others of the same chunk; every other item stays in its place.

    chunk              a  b  X  c  Y  Z  d        X, Y and Z are excluded
    what is drawn      a  b  c  c  d  d  d

An item is excluded from a position on. Knows indices of a stream; knows nothing of batches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from penstock.plan.draws import Ints
from penstock.plan.fileorder import FileOrder
from penstock.plan.stream import Picks, Stream

_NEVER = np.iinfo(np.int64).max
_ITEM_BITS = 32


@dataclass(frozen=True)
class Excluded:
    """Excluded items of one source, as parallel arrays, each item once.

    Attributes:
        group: Group of each item.
        item: Number of each item in its group.
        since: First position at which the item is excluded: a slot of the run or, for a stream, an index.
        sizes: Items per group of the source.
    """

    group: Ints
    item: Ints
    since: Ints
    sizes: Ints

    @cached_property
    def _sorted(self) -> tuple[Ints, Ints]:
        """Keys of the items in ascending order, and the positions since which they are excluded."""
        keys = _key(self.group, self.item)
        order = np.argsort(keys)
        return np.append(keys[order], _NEVER), np.append(self.since[order], _NEVER)

    @cached_property
    def _whole_groups(self) -> dict[int, int]:
        """Groups of which all items are excluded, and the positions since which they are."""
        groups, inverse, counts = np.unique(self.group, return_inverse=True, return_counts=True)
        last = np.zeros(len(groups), dtype=np.int64)
        np.maximum.at(last, inverse, self.since)
        whole = counts == self.sizes[groups]
        return dict(zip(groups[whole].tolist(), last[whole].tolist(), strict=True))

    def since_of(self, group: Ints, item: Ints) -> Ints:
        """Return the position since which each item is excluded; a number above every position if it never is."""
        keys, since = self._sorted
        wanted = _key(group, item)
        at = keys.searchsorted(wanted)
        return np.where(keys[at] == wanted, since[at], _NEVER)

    def is_whole(self, group: int, position: int) -> bool:
        """Return whether all items of a group are excluded at a position."""
        return self._whole_groups.get(group, _NEVER) <= position

    def is_ever_whole(self, group: int) -> bool:
        """Return whether all items of a group are excluded at some position."""
        return group in self._whole_groups

    def some(self, chosen: Ints) -> "Excluded":
        """Return some of the items."""
        return Excluded(self.group[chosen], self.item[chosen], self.since[chosen], self.sizes)

    def moved(self, index_at: Callable[[int], int]) -> "Excluded":
        """Return the same items with other positions.

        Args:
            index_at: Function from an old position to the new one.
        """
        old, inverse = np.unique(self.since, return_inverse=True)
        new = np.array([index_at(position) for position in old.tolist()], dtype=np.int64)
        return Excluded(self.group, self.item, new[inverse], self.sizes)


def _key(group: Ints, item: Ints) -> Ints:
    return (group << _ITEM_BITS) | item


class _Chunk(NamedTuple):
    """The places of a chunk.

    Attributes:
        low: First item of the chunk in the stream.
        since: Index since which the item of each place is excluded.
        last: Index from which on nothing changes.
        left: Places that are never excluded.
    """

    low: int
    since: Ints
    last: int
    left: Ints

    @property
    def size(self) -> int:
        return len(self.since)

    def places(self, index: int) -> Ints:
        """Return the places that are not excluded at an index."""
        return self.left if index >= self.last else np.flatnonzero(self.since > index)


class ExcludingStream:
    """A stream without its excluded items.

    The place of an excluded item is filled with the next item of its chunk that is not excluded. A chunk that is
    excluded whole is filled from the next one, place by place.

    Args:
        stream: The stream.
        excluded: Excluded items, all of which the stream holds, by index of the stream.
        name: Name of the source.

    Raises:
        ValueError: If an epoch might have no item left.
    """

    def __init__(self, stream: Stream | FileOrder, excluded: Excluded, name: str) -> None:
        self._stream = stream
        self._excluded = excluded
        self._items = stream.count_items()
        self._repeat = stream.count_indices() // self._items
        self._chunks: tuple[_Chunk, ...] = ()  # the latest; replaced whole, so threads need no lock
        if len(excluded.item) >= self._items:
            raise ValueError(
                f"{len(excluded.item):,} items of source {name!r} are excluded, and its epochs have {self._items:,}: "
                "none might be left to take their places; give the source the weight 0 from that sample on instead"
            )

    def picks(self, index: Ints) -> Picks:
        """Return the items at these indices of the endless stream. The indices may be in any order."""
        picks = self._stream.picks(index)
        [excluded] = np.nonzero(self._excluded.since_of(picks.group, picks.item) <= index)
        if len(excluded):
            instead = np.array([self._instead(each, 0) for each in index[excluded].tolist()])
            others = self._stream.picks(instead)
            picks.group[excluded] = others.group
            picks.item[excluded] = others.item
        return picks

    def ahead(self, nth: int, most: int) -> None:  # noqa: ARG002
        """Return None: which items are excluded depends on the index."""
        return None

    def stand_in(self, index: int, attempt: int) -> Picks:
        """Return the item that replaces a bad one.

        Args:
            index: Index of the bad item.
            attempt: Number of the substitute, from 1.
        """
        return self._stream.picks(np.array([self._instead(index, attempt)]))

    def indices(self, group: int, item: int, epoch: int) -> Ints:
        """Return every index at which an item comes in an epoch, also in places of excluded items."""
        found = []
        for index in self._stream.indices(group, item, epoch).tolist():
            nth, repeat = divmod(index, self._repeat)
            for place in [nth, *self._before(nth)]:
                candidate = place * self._repeat + repeat
                if self._instead(candidate, 0) == index:
                    found.append(candidate)
        return np.array(sorted(found), dtype=np.int64)

    def residents(self, index: int) -> list[int]:
        """Return the groups that are resident at an index, without those that are excluded whole."""
        return [group for group in self._stream.residents(index) if not self._excluded.is_whole(group, index)]

    def _instead(self, index: int, attempt: int) -> int:
        """Return the index whose item comes at an index, or is the substitute with a number."""
        nth, repeat = divmod(index, self._repeat)
        chunk = self._chunk(nth)
        offset = nth - chunk.low
        places = chunk.places(index)
        while not len(places):
            chunk = self._next(chunk)
            places = chunk.places(index)
        at = int(places.searchsorted(offset % chunk.size)) + attempt
        return (chunk.low + int(places[at % len(places)])) * self._repeat + repeat

    def _before(self, nth: int) -> list[int]:
        """Return the excluded items whose places an item may take, as numbers in the stream."""
        own = self._chunk(nth)
        taken = [nth - own.low]
        while len(taken) < own.size and own.since[taken[-1] - 1] < _NEVER:
            taken.append((taken[-1] - 1) % own.size)
        found = [own.low + place for place in taken[1:]]
        chunk = self._previous(own)
        while chunk.low != own.low and not len(chunk.left):
            same = np.isin(np.arange(chunk.size) % own.size, taken)
            found += (chunk.low + np.flatnonzero(same)).tolist()
            chunk = self._previous(chunk)
        return found

    def _next(self, chunk: _Chunk) -> _Chunk:
        """Return the chunk after one, in its epoch; after the last the first."""
        after = chunk.low + chunk.size
        return self._chunk(after if after % self._items else after - self._items)

    def _previous(self, chunk: _Chunk) -> _Chunk:
        return self._chunk(chunk.low - 1 if chunk.low % self._items else chunk.low + self._items - 1)

    def _chunk(self, nth: int) -> _Chunk:
        """Return the chunk that holds an item of the stream."""
        for known in self._chunks:
            if known.low <= nth < known.low + known.size:
                return known
        low, high = self._stream.chunk_bounds(nth)
        picks = self._stream.picks(np.arange(low, high) * self._repeat)
        since = self._excluded.since_of(picks.group, picks.item)
        last = int(since[since < _NEVER].max(initial=0))
        chunk = _Chunk(low, since, last, np.flatnonzero(since == _NEVER))
        self._chunks = (chunk, *self._chunks[:3])
        return chunk
