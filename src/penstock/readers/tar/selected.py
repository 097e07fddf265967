"""A manifest of tar shards without clips that are too short or too long. Reads no shard.

Rows stay those of the whole manifest, so that a reader needs nothing else. Nothing is kept per item: which items of a
group are left is found again when the group is used.
"""

from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.manifest.errors import ManifestError
from penstock.manifest.manifest import UNITS, Manifest, fingerprint
from penstock.plan.draws import Ints
from penstock.readers.tar.layout import Shard
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
        counts, microseconds = self._count()
        every = [counts[first:after] for first, after in pairwise(self._source_starts)]
        self._groups = [np.flatnonzero(own) for own in every]  # numbers in the whole manifest, per source
        self.left_out = tuple(all - int(own.sum()) for all, own in zip(self.items, every, strict=True))
        for name, groups in zip(self.sources, self._groups, strict=True):
            if not len(groups):
                raise ManifestError(
                    f"{self.path}: no clip of {name} is between {shortest:g} and {longest:g} s long; change "
                    "min_seconds or max_seconds, or leave the source out"
                )
        self._selected = Manifest(
            self.sources,
            [own[groups] for own, groups in zip(every, self._groups, strict=True)],
            fingerprints=[fingerprint(each, [shortest, longest]) for each in self.fingerprints],
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

    def shard_of_group(self, source: int, group: int) -> Shard:
        return super().shard_of_group(source, int(self._groups[source][group]))

    def rows(self, source: ArrayLike, group: ArrayLike, item: ArrayLike) -> Ints:
        source, group, item = np.broadcast_arrays(source, group, item)
        number = np.empty(group.shape, np.int64)  # of the group in the whole manifest
        for own in np.unique(source).tolist():
            here = source == own
            number[here] = self._source_starts[own] + self._groups[own][group[here]]
        rows = np.empty(group.shape, np.int64)
        for each in np.unique(number).tolist():
            here = number == each
            rows[here] = self._group_starts[each] + self._kept_items(each)[item[here]]
        return rows

    def locate(self, rows: ArrayLike) -> tuple[Ints, Ints, Ints]:
        rows = np.asarray(rows, dtype=np.int64)
        source, group, item = super().locate(rows)
        number = self._source_starts[source] + group
        found = np.array(
            [
                self._kept_items(each).searchsorted(own)
                for each, own in zip(number.ravel().tolist(), item.ravel().tolist(), strict=True)
            ],
            dtype=np.int64,
        ).reshape(item.shape)
        places = zip(source.ravel().tolist(), group.ravel().tolist(), strict=True)
        group = np.array([self._groups[own].searchsorted(each) for own, each in places], dtype=np.int64)
        return source, group.reshape(source.shape), found

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

    def _count(self) -> tuple[Ints, list[int]]:
        """Return the number of items that are left of each group, and their microseconds per source.

        Checksums are not verified here: they are when a group is used.
        """
        counts = []
        amounts = []
        for first, after in pairwise(self._group_starts.tolist()):
            keeps = self._keeps(first, after)
            seconds = self._columns.seconds[first:after]
            if not seconds.all():
                unknown = self.ids([first + int(np.argmin(seconds != 0))])[0]
                raise ManifestError(
                    f"{self.path}: the duration of {unknown} is unknown, and clips are to be chosen by it; write it "
                    "into the filelist, or as `duration` into the .json, and index again"
                )
            counts.append(int(np.count_nonzero(keeps)))
            amounts.append(int(np.rint(seconds[keeps].astype(np.float64) * _MICROSECONDS).sum()))
        totals = [sum(amounts[first:after]) for first, after in pairwise(self._source_starts.tolist())]
        hours = zip(self.amounts["hours"], totals, strict=True)
        return np.array(counts), [total if known else 0 for known, total in hours]
