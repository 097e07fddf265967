"""The index of a source: the items of all its files, in groups. In file order it grows as far as a run needs it.

files      a.jsonl               b.parquet
segments   0    1    2 ...       0    1 ...
groups     0 1  2 3  4 5 6       7 8  9            about as many items each, never of two segments
"""

import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from penstock.manifest.errors import ManifestError
from penstock.plan.draws import Ints
from penstock.readers.errors import ContentError
from penstock.readers.kept import Kept
from penstock.readers.records.fileindex import FileIndex, Summary, new_segments
from penstock.readers.records.files import Files
from penstock.readers.records.judging import Judge
from penstock.readers.records.recordfile import Place, RecordFile
from penstock.runtime.forking import reset_in_children

log = logging.getLogger("penstock.index")

ALL = 1 << 62  # more items than any source has
_KEPT_GROUPS = 4_096
_SAY_SECONDS = 10.0  # until a line says that an index is being made, and between two lines


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
_groups: Kept[tuple[int, int], _Group] = Kept(_KEPT_GROUPS)
_numbers = itertools.count()


class SourceIndex:
    """The items of a source; see ``plan.growing.Growing``. Any number of threads and processes may use it.

    Args:
        name: of the source, for messages.
        files: opens files.
        paths: of the files, in order.
        judge: decides which records are items.
        shelf: the folder in which indexes are kept.
        group_items: the most items of a group.
    """

    def __init__(
        self, name: str, files: Files, paths: Sequence[str], judge: Judge, shelf: Path, group_items: int
    ) -> None:
        self._arguments = (name, files, paths, judge, shelf, group_items)
        self._name = name
        self._files = files
        self._paths = paths
        self._judge = judge
        self._shelf = shelf
        self._group_items = group_items
        self._begin()
        reset_in_children(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return SourceIndex, self._arguments

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._number = next(_numbers)  # names its groups among those of all sources
        self._segments = new_segments()
        self._indexes: dict[int, FileIndex] = {}
        self._summaries: dict[int, Summary] = {}
        self._file = 0  # that is being looked at
        self._starts: Ints = np.zeros(1, np.int64)
        self._groups: Ints = np.zeros((0, 3), np.int64)  # file, segment, first item in the segment
        self._said = 0.0
        self._is_new = False  # whether this process has made some of it

    def reset_after_fork(self) -> None:
        """Start anew: a thread of the parent may hold a lock. What it has found is on the shelf."""
        self._begin()

    @property
    def complete(self) -> bool:
        return self._file >= len(self._paths)

    def starts(self, items: int) -> Ints:
        """Return where the known groups begin; see ``Growing.starts``.

        Raises:
            ManifestError: If the source has no items at all, or a file is damaged.
        """
        if self._starts[-1] >= items or self.complete:
            return self._starts
        with self._lock:
            while self._starts[-1] < items and not self.complete:
                self._extend(items)
            if self.complete and not self._starts[-1]:
                raise ManifestError(self._nothing())
            if self.complete and self._is_new:
                self._is_new = False
                self._report()
        return self._starts

    def _extend(self, items: int) -> None:
        """Add the groups of the segments of a file that are known, or make the next segment of it."""
        try:
            index = self._index(self._file)
            summary = index.summary()
            known = self._summaries.get(self._file, Summary())
            if len(summary.items) == len(known.items) and not summary.complete:
                self._say(items)
                self._is_new = True
                summary = index.extend()
        except ContentError as error:
            raise ManifestError(f"source {self._name!r}: {error}") from None
        except FileNotFoundError as error:
            raise ManifestError(f"source {self._name!r}: a file is missing: {error}") from None
        self._summaries[self._file] = summary  # first: whoever sees a group needs it
        for segment in range(len(known.items), len(summary.items)):
            self._add(segment, summary.items[segment])
        if summary.complete:
            self._file += 1

    def _add(self, segment: int, items: int) -> None:
        if not items:
            return
        parts = -(-items // self._group_items)
        bounds = np.arange(parts + 1) * items // parts
        rows = np.stack([np.full(parts, self._file), np.full(parts, segment), bounds[:-1]], axis=1)
        self._groups = np.concatenate([self._groups, rows])
        self._starts = np.concatenate([self._starts, self._starts[-1] + bounds[1:]])

    def firsts(self, groups: Ints) -> Ints:
        """Return the first item of each of some groups, counted over all files."""
        if len(groups):
            self._known(int(groups.max()))
        return self._starts[groups]

    def _known(self, group: int) -> Sequence[int]:
        """Return file, segment and first item of a group. A process that was just started reads up to it here."""
        while len(self._groups) <= group and not self.complete:
            self.starts(int(self._starts[-1]) + 1)
        known: Sequence[int] = self._groups[group].tolist()
        return known

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
        file, segment, first = self._known(group)
        count = int(self._starts[group + 1] - self._starts[group])
        index = self._index(file)
        found = index.segment(segment)
        own = slice(first, first + count)
        before = sum(self._summaries[file].records[:segment])
        rows = before + found.rows[own].astype(np.int64)
        lengths = found.lengths[own].astype(np.int64)
        labels = found.labels[own].astype(np.int64)
        return _Group(index, segment, first, found.places[own].copy(), rows, lengths, labels)  # the segment is larger

    def group_path(self, group: int) -> str:
        """Return the path of the file that a group lies in."""
        return self._paths[self._known(group)[0]]

    def lengths(self, group: int) -> Ints:
        """Return the tokens of all items of a group, which were counted."""
        return self._group(group).lengths

    def labels(self, group: int) -> Ints:
        """Return the tokens that are trained of all items of a group; empty if they were not counted."""
        return self._group(group).labels

    def find(self, path: str, row: int) -> list[int]:
        """Return the item that a record of a file is, counted over all files; the index becomes complete up to it."""
        found = []
        for file in [number for number, each in enumerate(self._paths) if path in ("", each)]:
            while self._file <= file and not self.complete:
                self.starts(int(self._starts[-1]) + 1)
            summary = self._summaries[file]
            ends = np.cumsum(summary.records)
            segment = int(np.searchsorted(ends, row, side="right"))
            if segment >= len(ends):
                continue
            within = row - int(ends[segment] - summary.records[segment])
            rows = self._index(file).segment(segment).rows
            at = int(np.searchsorted(rows, within))
            if at < len(rows) and rows[at] == within:
                first = int(np.flatnonzero((self._groups[:, :2] == (file, segment)).all(axis=1))[0])
                found.append(int(self._starts[first]) + at)
        return found

    def finish(self) -> None:
        """Make the whole index."""
        self.starts(ALL)

    @property
    def paths(self) -> Sequence[str]:
        return self._paths

    @property
    def reasons(self) -> Counter[str]:
        """How often records that were looked at are no items, by reason."""
        total: Counter[str] = Counter()
        for summary in self._summaries.values():
            total.update(summary.reasons)
        return total

    @property
    def records(self) -> int:
        """Records that were looked at."""
        return sum(sum(summary.records) for summary in self._summaries.values())

    @property
    def tokens(self) -> int:
        """Tokens of all items that are known; 0 if they were not counted."""
        return sum(summary.tokens for summary in self._summaries.values()) if self._judge.counts else 0

    def group_bytes(self) -> Ints:
        """Return about what each known group takes in the cache. A unit of several groups counts for the first.

        Items of a file count as equally large: to look at all of them would take as long as to read the index.
        """
        items = np.diff(self._starts)
        found = np.zeros(len(items), dtype=np.int64)
        files, firsts = np.unique(self._groups[: len(items), 0], return_index=True)
        ends = np.append(firsts, len(items))[1:]
        for file, first, end in zip(files.tolist(), firsts, ends, strict=True):
            here = slice(first, end)
            total, unit = self._index(file).file.weight()
            bytes_to = np.cumsum(items[here]) * (total / items[here].sum())
            units = np.minimum(np.ceil(bytes_to / unit) * unit, total).astype(np.int64)
            found[here] = np.diff(units, prepend=0)
        return found

    def open_stores(self) -> None:
        """Open the stores that files are read from. Reads none of them."""
        self._files.open_stores(self._paths)

    def content_bytes(self) -> int:
        """Return the size of all files, as they are stored. May ask the store."""
        return sum(map(self._files.ranges.size, self._paths))

    def file_index(self, number: int) -> FileIndex:
        """Return the index of one file."""
        return self._index(number)

    def _index(self, number: int) -> FileIndex:
        found = self._indexes.get(number)
        if found is None:
            file = self._files.open(self._paths[number])
            found = FileIndex(file, self._files.ranges, self._judge, self._shelf, self._segments)
            self._indexes[number] = found
        return found

    def _say(self, items: int) -> None:
        """Log that an index is being made, if it takes long."""
        now = time.monotonic()
        if not self._said:
            self._said = now
        elif now - self._said > _SAY_SECONDS:
            self._said = now
            what = "all of it" if items == ALL else f"item {items:,}"
            log.warning(
                "source %r: indexing up to %s; at item %s, file %d of %d; this is done once, also by `penstock index`",
                *(self._name, what, f"{int(self._starts[-1]):,}", self._file + 1, len(self._paths)),
            )

    def _nothing(self) -> str:
        if not self.records:
            return f"source {self._name!r}: its files hold no records ({', '.join(self._paths[:3])})"
        return f"source {self._name!r}: none of its {self.records:,} records can be used: {self._counted()}"

    def _report(self) -> None:
        """Log what was left out."""
        left_out = self.records - int(self._starts[-1])
        if left_out:
            log.warning(
                "source %r: %s of %s records are left out: %s",
                *(self._name, f"{left_out:,}", f"{self.records:,}", self._counted()),
            )

    def _counted(self) -> str:
        return ", ".join(f"{count:,} × {reason}" for reason, count in self.reasons.most_common(8))

    def close(self) -> None:
        self._files.close()
