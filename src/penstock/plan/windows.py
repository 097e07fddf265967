"""The next items of all streams in flat arrays, so that one look-up serves a batch of any number of sources.

A step of 1,024 samples from 1,000 sources took 24 ms with one look-up per stream, and takes 1 ms with this. Knows no
order: items are put in by the order, which also finds what is missing here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.plan.draws import Ints

_Scalar = TypeVar("_Scalar", bound=np.generic)
_ALL_ITEMS = 65_536  # target over all streams
_MIN_WIDTH = 64
_MAX_WIDTH = 1_024


class NextItems(NamedTuple):
    """Consecutive items of a stream.

    Attributes:
        first: Number of the first item in the stream, over all epochs.
        groups: Group of each item.
        items: Number of each item in its group.
        per_epoch: Items of the stream per epoch.
    """

    first: int
    groups: Ints
    items: Ints
    per_epoch: int


@dataclass(frozen=True, slots=True)
class Windows:
    """Consecutive items of each stream. Never changes: ``moved`` returns new windows, so threads need no lock.

    Attributes:
        width: Maximum number of items per stream.
        row: Row of each stream; 0 for a stream without items.
        first: Number of the first item of each row in its stream.
        count: Items of each row.
        per_epoch: Items per epoch of the stream of each row.
        group: Group of each item, shape (rows, width).
        item: Number of each item in its group, shape (rows, width).
    """

    width: int
    row: Ints
    first: Ints
    count: Ints
    per_epoch: Ints
    group: npt.NDArray[np.int32]
    item: npt.NDArray[np.int32]

    @classmethod
    def empty(cls, streams: int) -> "Windows":
        """Return windows without items."""
        width = min(max(_ALL_ITEMS // streams, _MIN_WIDTH), _MAX_WIDTH)
        none = np.zeros((1, width), dtype=np.int32)
        zero = np.zeros(1, dtype=np.int64)
        return cls(width, np.zeros(streams, dtype=np.int64), zero, zero, zero + 1, none, none)

    def find(self, stream: Ints, nth: Ints) -> tuple[Ints, Ints]:
        """Return items of streams.

        Args:
            stream: Stream of each item.
            nth: Number of each item in its stream.

        Returns:
            Epoch, group and item, shape (3, n), and the indices of the items that are not in a window.
        """
        row = self.row[stream]
        at = nth - self.first[row]
        missing = np.flatnonzero((at < 0) | (at >= self.count[row]))
        at[missing] = 0
        found = np.empty((3, len(nth)), dtype=np.int64)
        found[0] = nth // self.per_epoch[row]
        found[1] = self.group[row, at]
        found[2] = self.item[row, at]
        return found, missing

    def moved(self, streams: Mapping[int, NextItems]) -> "Windows":
        """Return windows with other items of some streams."""
        row = self.row.copy()
        new = [stream for stream in streams if not row[stream]]
        rows = len(self.first)
        row[new] = np.arange(rows, rows + len(new))
        first, count, per_epoch = (_longer(each, len(new)) for each in (self.first, self.count, self.per_epoch))
        group = _longer(self.group, len(new))
        item = _longer(self.item, len(new))
        for stream, known in streams.items():
            at = row[stream]
            first[at] = known.first
            count[at] = len(known.items)
            per_epoch[at] = known.per_epoch
            group[at, : len(known.items)] = known.groups
            item[at, : len(known.items)] = known.items
        return Windows(self.width, row, first, count, per_epoch, group, item)


def _longer(array: npt.NDArray[_Scalar], rows: int) -> npt.NDArray[_Scalar]:
    """Return a copy of an array with more rows."""
    return np.concatenate([array, np.empty((rows, *array.shape[1:]), dtype=array.dtype)])
