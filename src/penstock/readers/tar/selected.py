"""A manifest of tar shards without clips that are too short or too long. Reads no shard.

Rows stay those of the whole manifest, so that a reader needs nothing else. Nothing is kept per item: which items of a
group are left is found again when the group is used.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.manifest.errors import ManifestError
from penstock.manifest.manifest import UNITS, Manifest, fingerprint
from penstock.plan.draws import Ints
from penstock.readers.tar.manifest import TarManifest

KEPT_GROUPS = 4_096
_MICROSECONDS = UNITS["hours"] // 3600


class SelectedManifest(TarManifest):
    """The selected samples of tar shards; see ``TarManifest``.

    Args:
        path: Folder of the compiled manifest.
        shortest: Shortest duration of an item, in seconds.
        longest: Longest duration of an item, in seconds.

    Attributes:
        left_out: Number of items of each source that are not used.

    Raises:
        ManifestError: If durations are needed and unknown, or no item of a source is left.
    """

    def __init__(self, path: str | Path, shortest: float, longest: float) -> None:
        super().__init__(path)
        self._range = (shortest, longest)
        self._kept_items = lru_cache(KEPT_GROUPS)(self._find_kept)
        kept, counts, microseconds = self._count()
        every = [counts[first:after] for first, after in pairwise(self._source_starts)]
        self._numbers = np.flatnonzero(counts)  # of the groups that are left, in the whole manifest
        self.left_out = tuple(all - int(own.sum()) for all, own in zip(self.items, every, strict=True))
        for name, own in zip(self.sources, every, strict=True):
            if not own.any():
                raise ManifestError(
                    f"{self.path}: no clip of {name} is between {shortest:g} and {longest:g} s long; change "
                    "min_seconds or max_seconds, or leave the source out"
                )
        self._selected = Manifest(
            self.sources,
            [own[own > 0] for own in every],
            fingerprints=[fingerprint(*each) for each in zip(self.fingerprints, kept, strict=True)],
            amounts={"hours": microseconds},
        )
        self.fingerprints = self._selected.fingerprints
        self.items = self._selected.items
        self.amounts = self._selected.amounts

    def __reduce__(self) -> tuple[object, ...]:
        return SelectedManifest, (self.path, *self._range)

    def __len__(self) -> int:
        return len(self._selected)

    def group_sizes(self, source: int) -> Ints:
        return self._selected.group_sizes(source)

    def _group_number(self, source: int, group: int) -> int:
        return int(self._numbers[self._selected.first_groups[source] + group])

    def rows(self, source: ArrayLike, group: ArrayLike, item: ArrayLike) -> Ints:
        source, group, item = np.broadcast_arrays(source, group, item)
        number = self._numbers[self._selected.first_groups[source] + group]
        rows: Ints = self._group_starts[number] + self._by_group(number, item, lambda kept, own: kept[own])
        return rows

    def locate(self, rows: ArrayLike) -> tuple[Ints, Ints, Ints]:
        source, group, item = super().locate(rows)
        number = self._source_starts[source] + group
        item = self._by_group(number, item, lambda kept, own: kept.searchsorted(own))
        return source, self._numbers.searchsorted(number) - self._selected.first_groups[source], item

    def _by_group(self, number: Ints, item: Ints, find: Callable[[Ints, Ints], Ints]) -> Ints:
        """Translate items of groups, which have numbers of the whole manifest, group by group."""
        found = np.empty(item.size, np.int64)
        order = np.argsort(number, axis=None, kind="stable")
        each, starts = np.unique(number.ravel()[order], return_index=True)
        for own, here in zip(each.tolist(), np.split(order, starts[1:]), strict=True):
            found[here] = find(self._kept_items(own), item.ravel()[here])
        return found.reshape(item.shape)

    def find(self, item: str) -> list[int]:
        return [row for row in super().find(item) if self._keeps(row, row + 1)[0]]

    def _find_kept(self, number: int) -> NDArray[np.int64]:
        """Return the items of a group that are left, by its number in the whole manifest."""
        first, after = self._group_starts[number : number + 2].tolist()
        self._columns.used.use(np.arange(first, after))
        return np.flatnonzero(self._keeps(first, after))

    def _keeps(self, first: int, after: int) -> NDArray[np.bool_]:
        """Return which of some consecutive rows are left."""
        shortest, longest = map(np.float32, self._range)
        seconds = self._columns.seconds[first:after]
        keeps: NDArray[np.bool_] = (seconds >= shortest) & (seconds <= longest)
        return keeps

    def _count(self) -> tuple[list[NDArray[np.uint8]], Ints, list[int]]:
        """Return which items are left of each source, in bits, their number per group, and microseconds per source.

        Checksums are not verified here: they are when a group is used.
        """
        kept, counts, amounts = [], [], []
        for first, after in pairwise(self._source_starts.tolist()):
            starts = self._group_starts[first : after + 1]
            seconds = self._columns.seconds[starts[0] : starts[-1]]
            if not seconds.all():
                unknown = self.ids([starts[0] + int(np.argmin(seconds != 0))])[0]
                raise ManifestError(
                    f"{self.path}: the duration of {unknown} is unknown, and clips are to be chosen by it; write it "
                    "into the filelist, or as `duration` into the .json, and index again"
                )
            keeps = self._keeps(int(starts[0]), int(starts[-1]))
            kept.append(np.packbits(keeps))
            counts.append(np.add.reduceat(keeps, starts[:-1] - starts[0], dtype=np.int64))
            amounts.append(int(np.rint(seconds[keeps].astype(np.float64) * _MICROSECONDS).sum()))
        return kept, np.concatenate(counts), amounts
