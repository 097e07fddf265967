"""The files of a source, and what is known of them from earlier runs; see ``filetable``. Makes no index.

listing   a.jsonl stamp 1   b.jsonl stamp 2   d.jsonl stamp 5
table     a.jsonl stamp 1   b.jsonl stamp 7   c.jsonl stamp 3
known     a.jsonl           -                 -                  only these two are looked at
"""

import hashlib
import json
import os
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from penstock.plan.draws import Ints
from penstock.readers.lrucache import LruCache
from penstock.readers.metadatacache import make_folder
from penstock.readers.records.fileindex import FileIndex
from penstock.readers.records.files.kinds import LAYOUTS, RecordFiles
from penstock.readers.records.files.recordfile import SEGMENTS
from penstock.readers.records.filetable import FileFacts, FileTable
from penstock.readers.records.judging import Judge, SegmentIndex
from penstock.readers.records.tablefolder import newest_table, note_store, write_part, write_table
from penstock.runtime.forking import reset_in_children
from penstock.store.cache.locks import LockedFile
from penstock.store.cache.lockwait import lock_in_time

_FOLDER = "tables"


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
        keys: Digests of the content of files, where they are known without reading them.
        origin: What named the paths, such as a pattern. Each origin has a table of its own.
        must_keep: See ``FileIndex``.
    """

    name: str
    files: RecordFiles
    paths: Sequence[str]
    judge: Judge
    metadata: Path
    group_items: int
    wanted: Collection[str] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    origin: str = ""
    must_keep: bool = True


class KnownFiles:
    """The files of a source, and their rows in a table. Any number of threads may use it.

    Args:
        source: Files of the source.
        table: What is known of them; None to compare the table of an earlier run with a listing.

    Attributes:
        source: Files of the source. Another process knows their paths from the table only.
    """

    def __init__(self, source: RecordSource, table: FileTable | None = None) -> None:
        self.source = source
        self._old = FileTable.of([])
        self._table = table
        self.reset_after_fork()
        reset_in_children(self)
        if table is not None:
            source.files.know(self._stamp, self._version)

    def reset_after_fork(self) -> None:
        self._lock = threading.RLock()
        self._is_alone = False  # in the block of ``alone``

    @property
    def folder(self) -> Path:
        """Folder of the source's tables."""
        return self._folders[0]

    def __reduce__(self) -> tuple[object, ...]:
        return KnownFiles, (replace(self.source, paths=(), keys={}), self.table)

    def __len__(self) -> int:
        return len(self.source.paths) if self._table is None else len(self._table)

    @property
    def table(self) -> FileTable:
        """A row per file, in order. The first use lists the files.

        Raises:
            FileNotFoundError: If a local file is missing.
        """
        if self._table is None:
            with self._lock:
                if self._table is None:
                    paths = self.source.paths
                    self._table = self._compared(paths, self.source.files.stamps(paths))
                    self.source.files.know(self._stamp, self._version)
        return self._table

    def path(self, number: int) -> str:
        """Return the path of a file."""
        return self.table.text("path", number)

    def keys(self) -> list[str]:
        """Return a digest of the content of each file. Reads the files for which it is not known."""
        with self._lock:
            keys = self.table.texts("key")
            unknown = [number for number, key in enumerate(keys) if not key]
            if unknown:
                self.update({number: self.facts(number) for number in unknown})
                self.write()
        return self.table.texts("key") if unknown else keys

    def facts(self, number: int) -> FileFacts:
        """Return the facts of a file, after a look at it. If only its ctime changed, what was known stays."""
        table = self.table
        if table.text("key", number):
            return table.facts(number)
        path = table.text("path", number)
        found = FileFacts(path, int(table.sizes[number]), table.text("stamp", number))
        files = self.source.files
        found = replace(found, version=files.ranges.object_version(path).version)
        before = self._old.row(path)
        if before is not None and self._old.text("version", before) == found.version:
            return replace(self._old.facts(before), stamp=found.stamp)
        return replace(found, key=self.source.keys.get(path) or files.content_key(path))

    def open_index(self, number: int, segments: "LruCache[tuple[str, int], SegmentIndex]") -> FileIndex:
        """Return the index of a file.

        Args:
            number: Number of the file.
            segments: Latest segments of all files, in memory.
        """
        source = self.source
        return FileIndex(
            source.files.open(self.path(number)),
            source.files.ranges,
            source.judge,
            source.metadata,
            segments,
            source.files.medium,
            self.table.summary(number),
            lambda segment: self.table.segment(number, segment),
            source.must_keep,
        )

    def update(self, rows: Mapping[int, FileFacts]) -> None:
        """Replace rows."""
        if not rows:
            return
        with self._lock:
            before = np.full(len(self.table), -1)
            kept = np.setdiff1d(np.arange(len(self.table)), list(rows))
            before[kept] = kept
            self._table = _joined(self.table, before, [rows[number] for number in sorted(rows)])

    def write_part(self, rows: Iterable[FileFacts]) -> None:
        """Write rows that are to be in the table when it is written next."""
        with suppress(OSError):
            write_part(self.folder, FileTable.of(rows))

    def write(self) -> None:
        """Write the table for other processes and runs. On a full or read-only disk each process keeps its own."""
        with self._lock, suppress(OSError):
            self._take_indexed()
            self._table = write_table(self.folder, self.table)

    def write_joined(self) -> None:
        """Write the table if it is not yet in one file, as other processes have written parts of it."""
        if self.table.path is None:
            self.write()

    def _take_indexed(self) -> None:
        """Take the rows of files that other processes have indexed meanwhile: only the newest table counts."""
        table = self.table
        newest = newest_table(self.folder)
        rows = newest.unchanged(table.texts("path"), table.texts("stamp"))
        is_newer = (rows >= 0) & ~table.is_indexed()
        is_newer[is_newer] = newest.is_indexed()[rows[is_newer]]
        if is_newer.any():
            self._table = newest.joined(table).take(np.where(is_newer, rows, len(newest) + np.arange(len(table))))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let one process at a time make what is missing. A process that waited then has what the other wrote."""
        if self._is_alone:
            yield
            return
        make_folder(self.source.metadata)
        try:
            make_folder(self.folder.parent)
            make_folder(self.folder)
            for folder in filter(Path.exists, self._folders):
                note_store(folder, self.source.files.ranges.open_store().identity)
            lock = LockedFile(self.folder / ".index.lock", os.O_RDWR | os.O_CREAT)
        except OSError:  # a read-only disk
            yield
            return
        with lock:
            if not lock.lock(0, wait=False):
                lock_in_time(lock, 0, lambda: False, f"the index of source {self.source.name!r}")
            table = self.table
            listed = list(zip(table.texts("stamp"), table.sizes.tolist(), strict=True))
            self._table = self._compared(table.texts("path"), listed)
            self._is_alone = True
            try:
                yield
            finally:
                self._is_alone = False

    def _compared(self, paths: Sequence[str], listed: Sequence[tuple[str, int]]) -> FileTable:
        """Return the table of an earlier run, with an empty row for each file that is new or has changed."""
        tables = [newest_table(folder) for folder in self._folders]
        self._old = max(tables, key=lambda table: int(table.is_indexed().sum()))
        rows = self._old.unchanged(paths, [stamp for stamp, _ in listed])
        if len(rows) == len(self._old) and (rows == np.arange(len(rows))).all():
            return self._old
        changed = np.flatnonzero(rows < 0).tolist()
        new = [FileFacts(paths[each], size=listed[each][1], stamp=listed[each][0]) for each in changed]
        return _joined(self._old, rows, new)

    @property
    def _folders(self) -> list[Path]:
        """Folders of the source's tables, its own first. Tables with lengths also serve runs that need none."""
        source = self.source
        about = [source.files.ranges.open_store().identity, source.origin, source.files.medium, source.judge.key]
        depths = ["lengths"] if source.judge.counts else ["verdicts", "lengths"]
        keys = [json.dumps([*about, LAYOUTS, SEGMENTS, depth]) for depth in depths]
        return [source.metadata / _FOLDER / hashlib.sha256(key.encode()).hexdigest()[:32] for key in keys]

    def _stamp(self, path: str) -> str | None:
        return self._text("stamp", path)

    def _version(self, path: str) -> str | None:
        return self._text("version", path) or None

    def _text(self, column: str, path: str) -> str | None:
        table = self.table
        row = table.row(path)
        return None if row is None else table.text(column, row)


def _joined(table: FileTable, rows: Ints, new: Sequence[FileFacts]) -> FileTable:
    """Return a table with some rows of another, and the new ones where the number of a row is -1."""
    is_new = rows < 0
    order = np.where(is_new, (~is_new).sum() + np.cumsum(is_new) - 1, np.cumsum(~is_new) - 1)
    return table.take(rows[~is_new]).joined(FileTable.of(new)).take(order)
