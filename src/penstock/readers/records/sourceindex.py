"""The index of a source: its files are indexed one after the other, as far as a run needs, and cut into groups.

files      a.jsonl               b.parquet
segments   0    1    2 ...       0    1 ...
groups     0 1  2 3  4 5 6       7 8  9            about as many items each, never of two segments

In file order the index grows during a run; a shuffled run needs all of it. What earlier runs have learnt is in one
table; see ``knownfiles``.
"""

import hashlib
import itertools
import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np

from penstock.manifest.errors import ManifestError
from penstock.plan.draws import Ints, ranges
from penstock.readers.errors import ContentError
from penstock.readers.lrucache import LruCache
from penstock.readers.records.fileindex import FileIndex, Summary, new_segments
from penstock.readers.records.files.recordfile import RecordFile
from penstock.readers.records.groups import SourceGroups
from penstock.readers.records.indexprogress import IndexProgress
from penstock.readers.records.knownfiles import KnownFiles
from penstock.readers.records.record import RecordGroup
from penstock.readers.records.smallfiles import SmallFiles
from penstock.runtime.forking import reset_in_children

log = logging.getLogger("penstock.index")

ALL_ITEMS = 1 << 62  # more items than any source has
_KEPT_GROUPS = 4_096
_KEPT_FILES = 1_024  # as objects: memory does not grow with the number of files

# Of all sources of a process, so that its memory does not grow with their number: a group takes some 30 kB.
_groups: LruCache[tuple[int, int], RecordGroup] = LruCache(_KEPT_GROUPS)
_numbers = itertools.count()


class SourceIndex:
    """The items of a source; see ``plan.growing.Growing``. Any number of threads and processes may use it.

    Args:
        known: Files of the source, and what decides which of their records are items.
    """

    def __init__(self, known: KnownFiles) -> None:
        self.known = known
        self.source = known.source
        self.reset_after_fork()
        reset_in_children(self)

    def __reduce__(self) -> tuple[object, ...]:
        return SourceIndex, (self.known,)

    def reset_after_fork(self) -> None:
        """Start empty: a thread of the parent may hold a lock. What the parent found is on disk."""
        self._number = next(_numbers)  # names its groups among those of all sources
        self._lock = threading.RLock()
        self._segments = new_segments()
        self._indexes: LruCache[int, FileIndex] = LruCache(_KEPT_FILES)
        self._summaries: dict[int, Summary] = {}  # of files that are not in the table
        self._file = 0  # that is being looked at
        self._groups = SourceGroups()
        self._progress = IndexProgress(self.source.name, len(self.known))
        self._is_new = False  # whether this process has made some of it

    @property
    def complete(self) -> bool:
        return self._file >= len(self.known)

    def starts(self, items: int) -> Ints:
        """Return where the known groups begin; see ``Growing.starts``.

        Raises:
            ManifestError: If the source has no items at all, or a file is damaged.
        """
        if self._groups.starts[-1] >= items or self.complete:
            return self._groups.starts
        with self._lock:
            self._add_known()
            with self._explained():
                while self._groups.starts[-1] < items and not self.complete:
                    self._extend(items)
                    self._add_known()
            if self.complete:
                self._end()
        return self._groups.starts

    def finish(self) -> None:
        """Make the whole index. One process makes what is missing, and others that need it wait and use it."""
        with self._lock:
            if not self.complete and not self.known.table.is_indexed().all():
                with self.known.alone(), self._explained():
                    self._is_new |= SmallFiles(self.known).make_missing(self._show) > 0
                    self.starts(ALL_ITEMS)
        self.starts(ALL_ITEMS)

    def _show(self, items: int, file: int, done: float) -> None:
        self._progress.update(items, file, lambda: done, upto=None)

    def _end(self) -> None:
        """Keep what was learnt, and report what is left out."""
        if self._summaries:
            facts = {
                number: replace(self.known.facts(number), summary=each) for number, each in self._summaries.items()
            }
            self.known.update(facts)
            self.known.write()
            self._summaries = {}
        if not self._groups.starts[-1]:
            raise ManifestError(self._nothing())
        if self._is_new:
            self._is_new = False
            self._report()

    def _add_known(self) -> None:
        """Add the groups of the next files that the table knows."""
        table = self.known.table
        counts = table.segment_counts()
        unknown = np.flatnonzero(counts[self._file :] == 0)
        after = self._file + int(unknown[0]) if len(unknown) else len(counts)
        if after == self._file or self._file in self._summaries:
            return
        here = counts[self._file : after]
        first = int(counts[: self._file].sum())
        files = np.repeat(np.arange(self._file, after), here)
        items = table.segment_items()[first : first + len(files)]
        self._groups.add(files, ranges(here), items, self.source.group_items)
        self._file = after

    def _extend(self, items: int) -> None:
        """Add the groups of the current file's known segments, or make its next segment."""
        index = self.file_index(self._file)
        summary = index.summary()
        known = self._summaries.get(self._file, Summary())
        if len(summary.items) == len(known.items) and not summary.complete:
            upto = None if items == ALL_ITEMS else items
            found = int(self._groups.starts[-1])

            def show(items: int, done: float) -> None:
                share = partial(_share, index.file, len(known.items) + done)
                self._progress.update(found + items, self._file, share, upto=upto)

            show(0, 0.0)
            self._is_new = True
            summary = index.extend(show)
        self._summaries[self._file] = summary  # first: a thread that sees a group needs it
        segments = np.arange(len(known.items), len(summary.items))
        files = np.full(len(segments), self._file)
        new = np.array(summary.items[len(known.items) :], dtype=np.int64)
        self._groups.add(files, segments, new, self.source.group_items)
        if summary.complete:
            self._file += 1

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """End the progress bar; name the source in errors of its files."""
        try:
            yield
        except ContentError as error:
            raise ManifestError(f"source {self.source.name!r}: {error}") from None
        except FileNotFoundError as error:
            raise ManifestError(f"source {self.source.name!r}: a file is missing: {error}") from None
        finally:
            self._progress.end()

    def firsts(self, groups: Ints) -> Ints:
        """Return the first item of each of some groups, counted over all files."""
        if len(groups):
            self._bounds_of(int(groups.max()))
        return self._groups.starts[groups]

    def group(self, number: int) -> RecordGroup:
        """Return a group. May read the index up to it."""
        return _groups.get_or_make((self._number, number), lambda: self._load(number))

    def _load(self, group: int) -> RecordGroup:
        file, segment, first = self._bounds_of(group)
        start, end = self._groups.starts[group : group + 2].tolist()
        index = self.file_index(file)
        found = index.segment(segment)
        own = slice(first, first + end - start)
        before = sum(self._summary(file).records[:segment])
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
        while len(self._groups.starts) <= group + 1 and not self.complete:
            self.starts(int(self._groups.starts[-1]) + 1)
        found: Sequence[int] = self._groups.bounds[group].tolist()
        return found

    def group_path(self, group: int) -> str:
        """Return the path of the file containing a group."""
        return self.known.path(self._bounds_of(group)[0])

    def group_files(self) -> Ints:
        """Return the file of each known group."""
        return self._groups.bounds[: len(self._groups.starts) - 1, 0]

    def find(self, path: str, row: int) -> list[int]:
        """Return the items that a record is, counted over all files. The index is completed up to it.

        Args:
            path: Path of the file; empty for all files.
            row: Number of the record in the file.
        """
        found = []
        named = self.known.table.row(path) if path else None
        for file in range(len(self.known)) if not path else [] if named is None else [named]:
            while self._file <= file and not self.complete:
                self.starts(int(self._groups.starts[-1]) + 1)
            records = self._summary(file).records
            ends = np.cumsum(records)
            segment = int(np.searchsorted(ends, row, side="right"))
            if segment >= len(ends):
                continue
            within = row - int(ends[segment] - records[segment])
            rows = self.file_index(file).segment(segment).rows
            at = int(np.searchsorted(rows, within))
            if at < len(rows) and rows[at] == within:
                group = np.flatnonzero((self._groups.bounds[:, :2] == (file, segment)).all(axis=1))[0]
                found.append(int(self._groups.starts[group]) + at)
        return found

    def _summary(self, file: int) -> Summary:
        """Return the totals of a file that is known."""
        return self._summaries.get(file) or self.known.table.summary(file)

    def file_index(self, number: int) -> FileIndex:
        """Return the index of one file."""
        return self._indexes.get_or_make(number, lambda: self.known.open_index(number, self._segments))

    @property
    def reasons(self) -> Counter[str]:
        """Number of known records that are no items, by reason."""
        own = (summary.reasons for summary in self._summaries.values())
        return _total([*own, *self.known.table.counted("reasons")])

    @property
    def losses(self) -> Counter[str]:
        """Number of known items that lack something which their records have, by what that is."""
        own = (summary.losses for summary in self._summaries.values())
        return _total([*own, *self.known.table.counted("losses")])

    @property
    def records(self) -> int:
        """Number of known records."""
        return sum(sum(summary.records) for summary in self._summaries.values()) + self.known.table.total("records")

    @property
    def tokens(self) -> int:
        """Number of tokens of all known items; 0 if they were not counted."""
        if not self.source.judge.counts:
            return 0
        return sum(summary.tokens for summary in self._summaries.values()) + self.known.table.total("tokens")

    def kept_bytes(self) -> int:
        """Return the size of what is kept of all known items, such as their tokens."""
        keeps = self.known.source.judge.keeps
        return sum(self.file_index(number).kept_bytes() for number in range(len(self.known))) if keeps else 0

    def group_bytes(self) -> Ints:
        """Return the approximate size of each known group in the cache. A unit of several groups counts for the first.

        Items of a file count as equally large: to look at all of them would take as long as to read the index.
        """
        items = np.diff(self._groups.starts)
        found = np.zeros(len(items), dtype=np.int64)
        files, firsts = np.unique(self.group_files(), return_index=True)
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
        self.source.files.open_stores(self.known.table.texts("path"))

    def content_bytes(self) -> int:
        """Return the size of all files, as they are stored. May ask the store."""
        return self.known.table.total("size")

    def content_keys(self) -> list[list[str]]:
        """Return path and digest of the content of each file. Dates do not count: a copy has its own."""
        return [list(pair) for pair in zip(self.known.table.texts("path"), self.known.keys(), strict=True)]

    def versions_key(self) -> str:
        """Return a digest of the versions of all files."""
        self.known.keys()
        versions = "\n".join(self.known.table.texts("version"))
        return hashlib.sha256(versions.encode()).hexdigest()[:16]

    def close(self) -> None:
        self.source.files.close()

    def _nothing(self) -> str:
        name = self.source.name
        if not self.records:
            some = ", ".join(map(self.known.path, range(min(3, len(self.known)))))
            return f"source {name!r}: its files hold no records ({some})"
        advice = "; remove the source from this run" if set(self.reasons) <= set(self.source.wanted) else ""
        reasons = counted(self.reasons)
        return f"source {name!r}: none of its {self.records:,} records can be used: {reasons}{advice}"

    def _report(self) -> None:
        """Log which records are left out, except for what the config leaves out."""
        reasons = Counter({reason: count for reason, count in self.reasons.items() if reason not in self.source.wanted})
        if reasons:
            log.warning(
                "source %r: %s of %s records are left out: %s",
                *(self.source.name, f"{reasons.total():,}", f"{self.records:,}", counted(reasons)),
            )
        if self.losses:
            log.warning("source %r: %s", self.source.name, counted(self.losses))


def _total(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    return sum(map(Counter, counts), Counter())


def counted(reasons: Counter[str]) -> str:
    """Return reasons with their numbers, the most frequent first."""
    return ", ".join(f"{count:,} × {reason}" for reason, count in reasons.most_common(8))


def _share(file: RecordFile, segments: float) -> float:
    """Return the share of a file that some segments make up; 0 if the number of segments is unknown."""
    count = file.count()
    return segments / count if count else 0.0
