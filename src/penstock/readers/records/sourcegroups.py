"""The groups of a source: its files are indexed one after the other, as far as a run needs them, and cut into groups.

files      a.jsonl               b.parquet
segments   0    1    2 ...       0    1 ...
groups     0 1  2 3  4 5 6       7 8  9            about as many items each, never of two segments
"""

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
from penstock.readers.records.fileindex import FileIndex, Summary, new_segments
from penstock.readers.records.files import Files
from penstock.readers.records.indexprogress import IndexProgress
from penstock.readers.records.judging import Judge
from penstock.readers.records.recordfile import RecordFile

log = logging.getLogger("penstock.index")

ALL = 1 << 62  # more items than any source has


@dataclass(frozen=True)
class RecordSource:
    """The files of a source, and what decides which of their records are items.

    Attributes:
        name: of the source, for messages.
        files: opens files.
        paths: of the files, in order.
        judge: decides which records are items.
        shelf: the folder in which indexes are kept.
        group_items: the most items of a group.
        wanted: reasons for which the config wants records left out: no warning speaks of them.
    """

    name: str
    files: Files
    paths: Sequence[str]
    judge: Judge
    shelf: Path
    group_items: int
    wanted: Collection[str] = ()


class SourceGroups:
    """The groups of a source that are known; see ``plan.growing.Growing``. Any number of threads may use it.

    Args:
        source: its files, and what decides which of their records are items.
    """

    def __init__(self, source: RecordSource) -> None:
        self._source = source
        self._lock = threading.RLock()
        self._segments = new_segments()
        self._indexes: dict[int, FileIndex] = {}
        self._summaries: dict[int, Summary] = {}
        self._file = 0  # that is being looked at
        self._starts: Ints = np.zeros(1, np.int64)
        self._groups: Ints = np.zeros((0, 3), np.int64)  # file, segment, first item in the segment
        self._progress = IndexProgress(source.name, len(source.paths))
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

    def _extend(self, items: int) -> None:
        """Add the groups of the segments of a file that are known, or make the next segment of it."""
        try:
            index = self.file_index(self._file)
            summary = index.summary()
            known = self._summaries.get(self._file, Summary())
            if len(summary.items) == len(known.items) and not summary.complete:
                upto = None if items == ALL else items
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
        if not items:
            return
        parts = -(-items // self._source.group_items)
        bounds = np.arange(parts + 1) * items // parts
        rows = np.stack([np.full(parts, self._file), np.full(parts, segment), bounds[:-1]], axis=1)
        self._groups = np.concatenate([self._groups, rows])  # first: whoever sees a start needs its group
        self._starts = np.concatenate([self._starts, self._starts[-1] + bounds[1:]])

    def known(self) -> tuple[Ints, Ints]:
        """Return the groups that are known: the number of the file that each lies in, and the number of its items."""
        items = np.diff(self._starts)
        return self._groups[: len(items), 0], items

    def place(self, group: int) -> Sequence[int]:
        """Return file, segment and first item of a group. A process that was just started reads up to it here."""
        while len(self._starts) <= group + 1 and not self.complete:
            self.starts(int(self._starts[-1]) + 1)
        found: Sequence[int] = self._groups[group].tolist()
        return found

    def summary(self, file: int) -> Summary:
        """Return what is known of the segments of a file, all of which are indexed first."""
        while self._file <= file and not self.complete:
            self.starts(int(self._starts[-1]) + 1)
        return self._summaries[file]

    def records_before(self, file: int, segment: int) -> int:
        """Return the number of records before a segment of a file, which has a known group."""
        return sum(self._summaries[file].records[:segment])

    def segment_start(self, file: int, segment: int) -> int:
        """Return the first item of a segment of a file, counted over all files. The segment has a known group."""
        group = np.flatnonzero((self._groups[:, :2] == (file, segment)).all(axis=1))[0]
        return int(self._starts[group])

    def file_index(self, number: int) -> FileIndex:
        """Return the index of one file."""
        found = self._indexes.get(number)
        if found is None:
            file = self._source.files.open(self._source.paths[number])
            found = FileIndex(file, self._source.files.ranges, self._source.judge, self._source.shelf, self._segments)
            self._indexes[number] = found
        return found

    @property
    def reasons(self) -> Counter[str]:
        """How often records that were looked at are no items, by reason."""
        return _total(summary.reasons for summary in self._summaries.values())

    @property
    def losses(self) -> Counter[str]:
        """How often items lack what their records have, by what that is."""
        return _total(summary.losses for summary in self._summaries.values())

    @property
    def records(self) -> int:
        """Records that were looked at."""
        return sum(sum(summary.records) for summary in self._summaries.values())

    @property
    def tokens(self) -> int:
        """Tokens of all items that are known; 0 if they were not counted."""
        return sum(summary.tokens for summary in self._summaries.values()) if self._source.judge.counts else 0

    def _nothing(self) -> str:
        if not self.records:
            return f"source {self._source.name!r}: its files hold no records ({', '.join(self._source.paths[:3])})"
        advice = "; remove the source from this run" if set(self.reasons) <= set(self._source.wanted) else ""
        reasons = counted(self.reasons)
        return f"source {self._source.name!r}: none of its {self.records:,} records can be used: {reasons}{advice}"

    def _report(self) -> None:
        """Log what was left out, but for what the config wants left out."""
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
    """Return the share of a file that some segments are; 0 if their number is not known."""
    count = file.count()
    return segments / count if count else 0.0
