"""The index of a source: where its items lie, and how many tokens they have, by group. In file order it grows."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from penstock.plan.draws import Ints
from penstock.readers.lrucache import LruCache
from penstock.readers.records.fileindex import FileIndex
from penstock.readers.records.recordfile import Place, RecordFile
from penstock.readers.records.sourcegroups import ALL, RecordSource, SourceGroups
from penstock.runtime.forking import reset_in_children

_KEPT_GROUPS = 4_096


class Located(NamedTuple):
    """Where an item lies.

    Attributes:
        file: that it lies in.
        place: in the file.
        row: the number of the record in the file, items or not.
        length: tokens of the item; 0 if they were not counted.
        file_index: of the file.
        segment: of the file.
        item: in the segment.
    """

    file: RecordFile
    place: Place
    row: int
    length: int
    file_index: FileIndex
    segment: int
    item: int

    def kept(self) -> bytes | None:
        """Return what the index keeps of the item, such as its tokens; None for nothing."""
        return self.file_index.kept(self.segment, self.item)


class _Group(NamedTuple):
    """The items of a group.

    Attributes:
        file_index: of the file that they lie in.
        segment: of the file.
        first: item, in the segment.
        places: of the items.
        rows: their numbers among the records of the file.
        lengths: their tokens; empty if they were not counted.
        labels: their tokens that are trained; empty if they were not counted.
    """

    file_index: FileIndex
    segment: int
    first: int
    places: Ints
    rows: Ints
    lengths: Ints
    labels: Ints


# Of all sources of a process, so that its memory does not grow with their number: a group takes some 30 kB.
_groups: LruCache[tuple[int, int], _Group] = LruCache(_KEPT_GROUPS)
_numbers = itertools.count()


class SourceIndex:
    """The items of a source; see ``plan.growing.Growing``. Any number of threads and processes may use it.

    Args:
        source: its files, and what decides which of their records are items.
    """

    def __init__(self, source: RecordSource) -> None:
        self._source = source
        self._begin()
        reset_in_children(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return SourceIndex, (self._source,)

    def _begin(self) -> None:
        self._number = next(_numbers)  # names its groups among those of all sources
        self._groups = SourceGroups(self._source)

    def reset_after_fork(self) -> None:
        """Start anew: a thread of the parent may hold a lock. What it has found is on the shelf."""
        self._begin()

    @property
    def complete(self) -> bool:
        return self._groups.complete

    def starts(self, items: int) -> Ints:
        """Return where the known groups begin; see ``SourceGroups.starts``."""
        return self._groups.starts(items)

    def firsts(self, groups: Ints) -> Ints:
        """Return the first item of each of some groups, counted over all files."""
        if len(groups):
            self._groups.place(int(groups.max()))
        return self._groups.starts(0)[groups]

    def locate(self, group: int, item: int) -> Located:
        """Return where an item of a group lies."""
        found = self._group(group)
        first, second = found.places[item].tolist()
        length = int(found.lengths[item]) if len(found.lengths) else 0
        row = int(found.rows[item])
        return Located(
            found.file_index.file,
            (first, second),
            row,
            length,
            found.file_index,
            found.segment,
            found.first + item,
        )

    def row(self, group: int, item: int) -> int:
        """Return the number of an item's record in its file."""
        return int(self._group(group).rows[item])

    def places(self, group: int) -> Ints:
        """Return where all items of a group lie in their file."""
        return self._group(group).places

    def _group(self, group: int) -> _Group:
        return _groups.get_or_make((self._number, group), lambda: self._load(group))

    def _load(self, group: int) -> _Group:
        file, segment, first = self._groups.place(group)
        start, end = self._groups.starts(0)[group : group + 2].tolist()
        index = self._groups.file_index(file)
        found = index.segment(segment)
        own = slice(first, first + end - start)
        rows = self._groups.records_before(file, segment) + found.rows[own].astype(np.int64)
        lengths = found.lengths[own].astype(np.int64)
        labels = found.labels[own].astype(np.int64)
        return _Group(index, segment, first, found.places[own].copy(), rows, lengths, labels)  # the segment is larger

    def group_path(self, group: int) -> str:
        """Return the path of the file that a group lies in."""
        return self._source.paths[self._groups.place(group)[0]]

    def lengths(self, group: int) -> Ints:
        """Return the tokens of all items of a group, which were counted."""
        return self._group(group).lengths

    def labels(self, group: int) -> Ints:
        """Return the tokens that are trained of all items of a group; empty if they were not counted."""
        return self._group(group).labels

    def find(self, path: str, row: int) -> list[int]:
        """Return the item that a record of a file is, counted over all files; the index becomes complete up to it."""
        found = []
        for file in [number for number, each in enumerate(self._source.paths) if path in ("", each)]:
            records = self._groups.summary(file).records
            ends = np.cumsum(records)
            segment = int(np.searchsorted(ends, row, side="right"))
            if segment >= len(ends):
                continue
            within = row - int(ends[segment] - records[segment])
            rows = self._groups.file_index(file).segment(segment).rows
            at = int(np.searchsorted(rows, within))
            if at < len(rows) and rows[at] == within:
                found.append(self._groups.segment_start(file, segment) + at)
        return found

    def finish(self) -> None:
        """Make the whole index."""
        self.starts(ALL)

    @property
    def paths(self) -> Sequence[str]:
        return self._source.paths

    @property
    def reasons(self) -> Counter[str]:
        """How often records that were looked at are no items, by reason."""
        return self._groups.reasons

    @property
    def losses(self) -> Counter[str]:
        """How often items lack what their records have, by what that is."""
        return self._groups.losses

    @property
    def records(self) -> int:
        """Records that were looked at."""
        return self._groups.records

    @property
    def tokens(self) -> int:
        """Tokens of all items that are known; 0 if they were not counted."""
        return self._groups.tokens

    def group_bytes(self) -> Ints:
        """Return about what each known group takes in the cache. A unit of several groups counts for the first.

        Items of a file count as equally large: to look at all of them would take as long as to read the index.
        """
        group_files, items = self._groups.known()
        found = np.zeros(len(items), dtype=np.int64)
        files, firsts = np.unique(group_files, return_index=True)
        ends = np.append(firsts, len(items))[1:]
        for file, first, end in zip(files.tolist(), firsts, ends, strict=True):
            here = slice(first, end)
            total, unit = self._groups.file_index(file).file.weight()
            bytes_to = np.cumsum(items[here]) * (total / items[here].sum())
            units = np.minimum(np.ceil(bytes_to / unit) * unit, total).astype(np.int64)
            found[here] = np.diff(units, prepend=0)
        return found

    def open_stores(self) -> None:
        """Open the stores that files are read from. Reads none of them."""
        self._source.files.open_stores(self._source.paths)

    def content_bytes(self) -> int:
        """Return the size of all files, as they are stored. May ask the store."""
        return sum(map(self._source.files.ranges.size, self._source.paths))

    def versions_key(self) -> str:
        """Return a digest of the versions of all files. May ask the store."""
        versions = [self._source.files.ranges.object_version(path).version for path in self._source.paths]
        return hashlib.sha256("\n".join(versions).encode()).hexdigest()[:16]

    def file_index(self, number: int) -> FileIndex:
        """Return the index of one file."""
        return self._groups.file_index(number)

    def close(self) -> None:
        self._source.files.close()
