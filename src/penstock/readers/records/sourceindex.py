"""The index of a source: its files are indexed one after the other, as far as a run needs, and cut into groups.

files      a.jsonl               b.parquet
segments   0    1    2 ...       0    1 ...
groups     0 1  2 3  4 5 6       7 8  9            about as many items each, never of two segments

In file order the index grows during a run; a shuffled run needs all of it.
"""

import hashlib
import itertools
import logging
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from penstock.manifest.errors import ManifestError
from penstock.plan.draws import Ints
from penstock.readers.errors import ContentError
from penstock.readers.lrucache import LruCache
from penstock.readers.records.fileindex import FileIndex, Summary, new_segments
from penstock.readers.records.files.kinds import RecordFiles
from penstock.readers.records.files.recordfile import RecordFile
from penstock.readers.records.indexprogress import IndexProgress
from penstock.readers.records.judging import Judge
from penstock.readers.records.record import RecordGroup
from penstock.runtime.forking import reset_in_children

log = logging.getLogger("penstock.index")

ALL_ITEMS = 1 << 62  # more items than any source has
_KEPT_GROUPS = 4_096

# Of all sources of a process, so that its memory does not grow with their number: a group takes some 30 kB.
_groups: LruCache[tuple[int, int], RecordGroup] = LruCache(_KEPT_GROUPS)
_numbers = itertools.count()


@dataclass(frozen=True)
class RecordSource:
    """The files of a source, and what decides which of their records are items.

    Attributes:
        name: Name of the source, for messages.
        files: Opens the files.
        paths: Paths of the files, in order.
        judge: Decides which records are items.
        metadata: Folder of the metadata cache.
        group_items: Maximum number of items per group.
        wanted: Reasons for which the config leaves records out. They cause no warning.
    """

    name: str
    files: RecordFiles
    paths: Sequence[str]
    judge: Judge
    metadata: Path
    group_items: int
    wanted: Collection[str] = ()


class SourceIndex:
    """The items of a source; see ``plan.growing.Growing``. Any number of threads and processes may use it.

    Args:
        source: Files of the source, and what decides which of their records are items.
    """

    def __init__(self, source: RecordSource) -> None:
        self._source = source
        self.reset_after_fork()
        reset_in_children(self)

    def __reduce__(self) -> tuple[object, ...]:
        return SourceIndex, (self._source,)

    def reset_after_fork(self) -> None:
        """Start empty: a thread of the parent may hold a lock. What the parent found is on disk."""
        self._number = next(_numbers)  # names its groups among those of all sources
        self._lock = threading.RLock()
        self._segments = new_segments()
        self._indexes: dict[int, FileIndex] = {}
        self._summaries: dict[int, Summary] = {}
        self._file = 0  # that is being looked at
        self._starts: Ints = np.zeros(1, np.int64)
        self._bounds: Ints = np.zeros((0, 3), np.int64)  # of groups: file, segment, first item in the segment
        self._progress = IndexProgress(self._source.name, len(self._source.paths))
        self._is_new = False  # whether this process has made some of it

    @property
    def complete(self) -> bool:
        return self._file >= len(self._source.paths)

    def starts(self, items: int) -> Ints:
        """Return where the known groups begin; see ``Growing.starts``.

        Raises:
            ManifestError: If the source has no items at all, or a file is damaged.
        """
        if self._starts[-1] >= items or self.complete:
            return self._starts
        with self._lock:
            try:
                while self._starts[-1] < items and not self.complete:
                    self._extend(items)
            finally:
                self._progress.end()
            if self.complete and not self._starts[-1]:
                raise ManifestError(self._nothing())
            if self.complete and self._is_new:
                self._is_new = False
                self._report()
        return self._starts

    def finish(self) -> None:
        """Make the whole index."""
        self.starts(ALL_ITEMS)

    def _extend(self, items: int) -> None:
        """Add the groups of the current file's known segments, or make its next segment."""
        try:
            index = self.file_index(self._file)
            summary = index.summary()
            known = self._summaries.get(self._file, Summary())
            if len(summary.items) == len(known.items) and not summary.complete:
                upto = None if items == ALL_ITEMS else items
                found = int(self._starts[-1])

                def show(items: int, done: float) -> None:
                    share = partial(_share, index.file, len(known.items) + done)
                    self._progress.update(found + items, self._file, share, upto=upto)

                show(0, 0.0)
                self._is_new = True
                summary = index.extend(show)
        except ContentError as error:
            raise ManifestError(f"source {self._source.name!r}: {error}") from None
        except FileNotFoundError as error:
            raise ManifestError(f"source {self._source.name!r}: a file is missing: {error}") from None
        self._summaries[self._file] = summary  # first: whoever sees a group needs it
        for segment in range(len(known.items), len(summary.items)):
            self._add(segment, summary.items[segment])
        if summary.complete:
            self._file += 1

    def _add(self, segment: int, items: int) -> None:
        """Cut a segment into groups."""
        if not items:
            return
        parts = -(-items // self._source.group_items)
        bounds = np.arange(parts + 1) * items // parts
        rows = np.stack([np.full(parts, self._file), np.full(parts, segment), bounds[:-1]], axis=1)
        self._bounds = np.concatenate([self._bounds, rows])  # first: whoever sees a start needs its group
        self._starts = np.concatenate([self._starts, self._starts[-1] + bounds[1:]])

    def firsts(self, groups: Ints) -> Ints:
        """Return the first item of each of some groups, counted over all files."""
        if len(groups):
            self._bounds_of(int(groups.max()))
        return self._starts[groups]

    def group(self, number: int) -> RecordGroup:
        """Return a group. May read the index up to it."""
        return _groups.get_or_make((self._number, number), lambda: self._load(number))

    def _load(self, group: int) -> RecordGroup:
        file, segment, first = self._bounds_of(group)
        start, end = self._starts[group : group + 2].tolist()
        index = self.file_index(file)
        found = index.segment(segment)
        own = slice(first, first + end - start)
        before = sum(self._summaries[file].records[:segment])
        return RecordGroup(
            index,
            segment,
            first,
            found.places[own].copy(),  # the segment is larger
            before + found.rows[own].astype(np.int64),
            found.lengths[own].astype(np.int64),
            found.labels[own].astype(np.int64),
        )

    def _bounds_of(self, group: int) -> Sequence[int]:
        """Return file, segment and first item of a group. A new process reads the index up to it."""
        while len(self._starts) <= group + 1 and not self.complete:
            self.starts(int(self._starts[-1]) + 1)
        found: Sequence[int] = self._bounds[group].tolist()
        return found

    def group_path(self, group: int) -> str:
        """Return the path of the file containing a group."""
        return self._source.paths[self._bounds_of(group)[0]]

    def find(self, path: str, row: int) -> list[int]:
        """Return the items that a record is, counted over all files. The index is completed up to it.

        Args:
            path: Path of the file; empty for all files.
            row: Number of the record in the file.
        """
        found = []
        for file in [number for number, each in enumerate(self._source.paths) if path in ("", each)]:
            records = self._summary(file).records
            ends = np.cumsum(records)
            segment = int(np.searchsorted(ends, row, side="right"))
            if segment >= len(ends):
                continue
            within = row - int(ends[segment] - records[segment])
            rows = self.file_index(file).segment(segment).rows
            at = int(np.searchsorted(rows, within))
            if at < len(rows) and rows[at] == within:
                group = np.flatnonzero((self._bounds[:, :2] == (file, segment)).all(axis=1))[0]
                found.append(int(self._starts[group]) + at)
        return found

    def _summary(self, file: int) -> Summary:
        """Return the totals of a file, which is indexed completely first."""
        while self._file <= file and not self.complete:
            self.starts(int(self._starts[-1]) + 1)
        return self._summaries[file]

    def file_index(self, number: int) -> FileIndex:
        """Return the index of one file."""
        found = self._indexes.get(number)
        if found is None:
            source = self._source
            file = source.files.open(source.paths[number])
            found = FileIndex(
                file, source.files.ranges, source.judge, source.metadata, self._segments, source.files.medium
            )
            self._indexes[number] = found
        return found

    @property
    def paths(self) -> Sequence[str]:
        return self._source.paths

    @property
    def reasons(self) -> Counter[str]:
        """Number of known records that are no items, by reason."""
        return _total(summary.reasons for summary in self._summaries.values())

    @property
    def losses(self) -> Counter[str]:
        """Number of known items that lack something which their records have, by what that is."""
        return _total(summary.losses for summary in self._summaries.values())

    @property
    def records(self) -> int:
        """Number of known records."""
        return sum(sum(summary.records) for summary in self._summaries.values())

    @property
    def tokens(self) -> int:
        """Number of tokens of all known items; 0 if they were not counted."""
        return sum(summary.tokens for summary in self._summaries.values()) if self._source.judge.counts else 0

    def group_bytes(self) -> Ints:
        """Return the approximate size of each known group in the cache. A unit of several groups counts for the first.

        Items of a file count as equally large: to look at all of them would take as long as to read the index.
        """
        items = np.diff(self._starts)
        found = np.zeros(len(items), dtype=np.int64)
        files, firsts = np.unique(self._bounds[: len(items), 0], return_index=True)
        ends = np.append(firsts, len(items))[1:]
        for file, first, end in zip(files.tolist(), firsts, ends, strict=True):
            here = slice(first, end)
            total, unit = self.file_index(file).file.weight()
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

    def close(self) -> None:
        self._source.files.close()

    def _nothing(self) -> str:
        if not self.records:
            return f"source {self._source.name!r}: its files hold no records ({', '.join(self._source.paths[:3])})"
        advice = "; remove the source from this run" if set(self.reasons) <= set(self._source.wanted) else ""
        reasons = counted(self.reasons)
        return f"source {self._source.name!r}: none of its {self.records:,} records can be used: {reasons}{advice}"

    def _report(self) -> None:
        """Log which records are left out, except for what the config leaves out."""
        reasons = Counter(
            {reason: count for reason, count in self.reasons.items() if reason not in self._source.wanted}
        )
        if reasons:
            log.warning(
                "source %r: %s of %s records are left out: %s",
                *(self._source.name, f"{reasons.total():,}", f"{self.records:,}", counted(reasons)),
            )
        if self.losses:
            log.warning("source %r: %s", self._source.name, counted(self.losses))


def _total(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    return sum(map(Counter, counts), Counter())


def counted(reasons: Counter[str]) -> str:
    """Return reasons with their numbers, the most frequent first."""
    return ", ".join(f"{count:,} × {reason}" for reason, count in reasons.most_common(8))


def _share(file: RecordFile, segments: float) -> float:
    """Return the share of a file that some segments make up; 0 if the number of segments is unknown."""
    count = file.count()
    return segments / count if count else 0.0
