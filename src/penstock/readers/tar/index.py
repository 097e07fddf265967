"""Tar shards -> an indexed manifest, which has the place and the checksum of every member.

The source of a sample is the ``language`` of its .json, else the folder of its shard (``default`` without one). Its
duration is the ``duration`` of its .json, else that of its WAV, FLAC, Ogg or MP3 file, else 0: unknown, and
the source cannot be weighted by hours. With a filelist, the rows of the filelist are indexed, with its order, languages
and durations. The manifest then has the fingerprint of the filelist, so a run that began with the filelist can continue
with it.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from penstock.manifest.errors import Problems
from penstock.readers.errors import ContentError
from penstock.readers.sidecars import TextPlace, no_texts
from penstock.readers.tar.filelist import read_filelist
from penstock.readers.tar.itemrows import all_items, listed_items
from penstock.readers.tar.keptshards import KeptShards, contents_bytes
from penstock.readers.tar.manifest import TarManifest
from penstock.readers.tar.shardreader import HowToRead, ShardContents, read_shard
from penstock.readers.tar.writer import ItemTable, write_manifest
from penstock.runtime.engines.engine import ALL, Engine, JobShare, Outcome, ThreadEngine, WorkerLost
from penstock.store.blob import Store
from penstock.store.local import stamp

IndexProgress = Callable[[int, int, int], None]
"""Called with the number of shards done, the number of all shards, and the bytes read."""


SHARD_ERRORS = (ContentError, WorkerLost, OSError, EOFError)
"""What keeps a single shard from being read."""


def shard_problem(path: str, error: Exception) -> tuple[str, str, str]:
    """Return kind, place and reason of a problem, for ``Problems.add``.

    Args:
        path: Path of the shard.
        error: One of ``SHARD_ERRORS``.
    """
    if isinstance(error, ContentError):
        return "broken shard", error.where, error.reason
    kind = "lost process" if isinstance(error, WorkerLost) else "unreadable shard"
    return kind, path.partition("\n")[0], str(error)


class ReadShard(NamedTuple):
    """What was read of a shard.

    Attributes:
        version: Version of the shard.
        size: Size of the shard.
        contents: Result of ``contents_bytes``.
    """

    version: str
    size: int
    contents: bytes


class TarIndexing:
    """An index of tar shards in the making: tasks, what they make, and the manifest at the end.

    What is read of a shard is kept in ``OUT.shards``. No shard is read twice, also if an index that was stopped,
    a job of an array or another machine has read it.

    Args:
        store: Store of the shards.
        paths: Paths of all shards.
        out: Output folder.
        rows: Samples to index, with their sources and durations; None for all samples.
        name: Name of the rows, for messages.
        text: Where samples have their text; those without one are left out. None to keep all.
        sha256: Whether to record the SHA-256 of every member.
        segments: Whether segments that the .json of a sample lists are items of their own.
        versions: Versions of shards that are known already, as from a listing.

    Attributes:
        without_text: Number of samples that were left out, as they have no text; known after ``finish``.
        without_seconds: Number of samples of unknown duration; known after ``finish``.
        first_without: Name of the first of them; empty if there is none.

    Examples:
        >>> from penstock.readers.tar.index import TarIndexing
        >>> def index(store, paths, out):
        ...     indexing = TarIndexing(store, paths, out)
        ...     for path in indexing.tasks():
        ...         indexing.keep(path, indexing.make(path))
        ...     return indexing.finish()
    """

    def __init__(
        self,
        store: Store,
        paths: Collection[str],
        out: str | Path,
        *,
        rows: ItemTable | None = None,
        name: str = "",
        text: TextPlace | None = None,
        sha256: bool = False,
        segments: bool = False,
        versions: Mapping[str, str] | None = None,
    ) -> None:
        self._store = store
        self._out = Path(out)
        self._rows = rows
        self._versions = dict(versions or {})
        self._name = name or str(out)
        self.paths = sorted(set(paths) if self._rows is None else {shard.path for shard in self._rows.shards})
        dotted = rows is not None and rows.keys is not None  # rows of other tools than filelists
        how = HowToRead(rows is not None, sha256, text, segments, dotted)
        self.make: Callable[[str], ReadShard] = ShardRead(store, how)
        kept = self._out.with_name(f"{self._out.name}.shards")
        self._kept = KeptShards(kept, store.identity, how)
        self._failed: dict[str, tuple[str, str, str]] = {}
        self.without_text = 0
        self.without_seconds = 0
        self.first_without = ""

    def tasks(self, share: JobShare = ALL) -> list[str]:
        """Return the paths of all shards that have to be read.

        Args:
            share: Share of this job, if there are several.
        """
        own = share.of(self.paths)
        if self._kept.is_empty:
            return list(own)
        return [path for path in own if not self._is_kept(path)]

    def _is_kept(self, path: str) -> bool:
        if path not in self._versions:
            try:
                blob = self._store.open(path)
            except OSError:  # raised again where it is read
                return False
            self._versions[path] = stamp(blob)
            blob.close()
        return self._kept.has(path, self._versions[path])

    def keep(self, path: str, read: ReadShard) -> None:
        """Keep what ``make`` has read of a shard."""
        self._versions[path] = read.version
        self._kept.keep(path, read.version, read.contents)

    def run(self, engine: Engine, *, share: JobShare = ALL, progress: IndexProgress | None = None) -> None:
        """Make all tasks.

        Args:
            engine: Engine that maps ``make`` over the tasks.
            share: Share of this job, if there are several.
            progress: Function called after every shard.

        Raises:
            ManifestError: If shards are damaged or cannot be read; the message names all of them. What was read of the
                others is kept.
        """
        tasks = self.tasks(share)
        total = len(share.of(self.paths))
        size = 0
        with closing(engine.map(self.make, tasks)) as outcomes:
            for done, outcome in enumerate(outcomes, total - len(tasks) + 1):
                size += self._keep(outcome)
                if progress:
                    progress(done, total, size)
        if share != ALL and self._failed:
            raise self._problems().error()

    def _keep(self, outcome: Outcome[str, ReadShard]) -> int:
        """Keep what was read of a shard, or why it was not; return its size."""
        path = outcome.task
        try:
            read = outcome.get()
        except SHARD_ERRORS as error:
            self._failed[path] = shard_problem(path, error)
        else:
            self.keep(path, read)
            return read.size
        return 0

    def _problems(self) -> Problems:
        problems = Problems(self._name)
        for path in sorted(self._failed):
            problems.add(*self._failed[path])
        return problems

    def finish(self) -> TarManifest:
        """Write the manifest from what was read of all shards.

        Raises:
            ManifestError: If shards or samples have problems; the message lists them.
        """
        contents = [found for path in self.paths if (found := self._load(path)) is not None]
        problems = self._problems()
        for each in contents:
            for problem in each.problems:
                problems.add("sample", problem.where, problem.reason)
        self.without_text = sum(each.without_text for each in contents)
        items = self._rows_of(contents, problems)
        if problems:
            raise problems.error()
        if self.without_text and not len(items.ids):
            raise no_texts(self._name, self.without_text)
        unknown = np.flatnonzero(items.seconds == 0)
        self.without_seconds = len(unknown)
        if len(unknown):
            self.first_without = f"{items.shards[items.shard[unknown[0]]].path}:{items.ids[int(unknown[0])].as_py()}"
        write_manifest(replace(items, store=self._store.url), self._out)
        self._kept.clean({path: self._versions[path] for path in self.paths})
        return TarManifest(self._out)

    def _rows_of(self, contents: list[ShardContents], problems: Problems) -> ItemTable:
        rows = self._rows
        return all_items(contents, problems) if rows is None else listed_items(rows, contents, problems)

    def _load(self, path: str) -> ShardContents | None:
        """Return what is kept of a shard, which is read again if that is damaged. None if it can't be read."""
        for attempt in range(2):
            if path in self._failed:
                break
            found = self._kept.load(path, self._versions[path])
            if found is not None:
                return found
            if not attempt:
                for outcome in ThreadEngine(1).map(self.make, [path]):
                    self._keep(outcome)
        return None


@dataclass(frozen=True)
class ShardRead:
    """Reads a shard, in any process: the work of a task."""

    store: Store
    how: HowToRead

    def __call__(self, path: str) -> ReadShard:
        """Read a shard from end to end; see ``read_shard``."""
        found = read_shard(self.store, path, self.how)
        assert found.shard.version is not None and found.shard.size is not None
        return ReadShard(found.shard.version, found.shard.size, contents_bytes(found))


def index_shards(
    store: Store,
    paths: Collection[str],
    out: str | Path,
    *,
    filelist: str | Path | None = None,
    threads: int = 8,
    sha256: bool = False,
    progress: IndexProgress | None = None,
) -> TarManifest:
    """Index shards of a store, with threads of this process.

    Args:
        store: Store of the shards.
        paths: Paths of all shards.
        out: Output folder.
        filelist: Filelist of the samples to index; None for all samples.
        threads: Number of shards that are read at the same time.
        sha256: Whether to record the SHA-256 of every member.
        progress: Function called after every shard.

    Raises:
        ManifestError: If the filelist or a shard has problems; the message lists them.
    """
    rows = None if filelist is None else read_filelist(filelist, known_shards=paths)
    indexing = TarIndexing(store, paths, out, rows=rows, name=str(filelist or out), sha256=sha256)
    indexing.run(ThreadEngine(threads), progress=progress)
    return indexing.finish()
