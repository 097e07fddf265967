"""Indexes small files as rows of the table of their source: they need no locks and no files of their own."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from penstock.readers.records.fileindex import new_segments
from penstock.readers.records.filetable import FileFacts
from penstock.readers.records.judging import Judged
from penstock.readers.records.knownfiles import KnownFiles

SMALL_BYTES = 1 << 20
_FEW_FILES = 256
_SECONDS_PER_PART = 10.0

Show = Callable[[int, int, float], None]
"""Called with the number of items found, the number of the file, and the share of it that is done."""


class SmallFiles:
    """The small files of a source.

    Args:
        known: Files of the source.
    """

    def __init__(self, known: KnownFiles) -> None:
        self._known = known

    def missing(self) -> list[int]:
        """Return the small files that are not indexed yet.

        Empty if data such as tokens, which has files of its own, must be kept, or is kept and small files are few.
        """
        source = self._known.source
        if source.judge.keeps and source.must_keep:
            return []
        table = self._known.table
        is_small = table.sizes <= SMALL_BYTES
        if source.judge.keeps and is_small.sum() <= _FEW_FILES:  # of all: jobs that share them must agree
            return []
        found: list[int] = np.flatnonzero(~table.is_indexed() & is_small).tolist()
        return found

    def make(self, number: int, judged: Judged | None = None) -> FileFacts:
        """Return what is known of a file once it is indexed.

        Args:
            number: Number of the file.
            judged: See ``judging.Judged``.

        Raises:
            ContentError: If it is damaged.
            FileNotFoundError: If it is missing.
        """
        facts = self._known.facts(number)
        if facts.summary.complete:
            return facts
        index = self._known.open_index(number, new_segments())
        kept = index.summary()
        if kept.complete:  # by an earlier release
            return replace(facts, summary=kept)
        summary, segments = index.make_all(judged)
        return replace(facts, summary=summary, segments=segments)

    def make_missing(self, show: Show) -> int:
        """Index all that is missing. Returns the number of files.

        Args:
            show: Called with the progress.
        """
        missing = self.missing()
        with self.adding() as rows:
            items = 0
            for number in missing:
                show(items, number, 0.0)
                rows[number] = self.make(number, _Shown(show, items, number))
                items += sum(rows[number].summary.items)
                rows.keep()
        return len(missing)

    @contextmanager
    def adding(self) -> Iterator["NewRows"]:
        """Collect rows. Those that are there at the end of the block are added to the table, also after an error."""
        rows = NewRows(self._known)
        try:
            yield rows
        finally:
            if rows:
                self._known.update(rows)
                self._known.write()


class NewRows(dict[int, FileFacts]):
    """Rows by number of the file. They are also written every ten seconds, so that a killed process loses little.

    Args:
        known: Files of the source.
    """

    def __init__(self, known: KnownFiles) -> None:
        super().__init__()
        self._known = known
        self._kept = 0
        self._next = time.monotonic() + _SECONDS_PER_PART

    def keep(self) -> None:
        """Write the rows that are new, if it is time."""
        if time.monotonic() >= self._next:
            self._known.write_part(list(self.values())[self._kept :])
            self._kept = len(self)
            self._next = time.monotonic() + _SECONDS_PER_PART


class _Shown:
    """Shows how far the index of one file is; see ``judging.Judged``."""

    def __init__(self, show: Show, before: int, number: int) -> None:
        self._show = show
        self._before = before
        self._number = number

    def __call__(self, items: int, done: float) -> None:
        self._show(self._before + items, self._number, done)
