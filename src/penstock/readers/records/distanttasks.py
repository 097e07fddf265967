"""The indexes of sources as tasks for other machines: each works in a temporary folder, and needs no shelf or lock."""

import pickle
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from penstock.readers.indextasks import IndexResult, IndexTask
from penstock.readers.records.building import FILES_PER_TASK, missing_segments
from penstock.readers.records.filetable import FileTable
from penstock.readers.records.knownfiles import KnownFiles, RecordSource
from penstock.readers.records.smallfiles import SmallFiles
from penstock.readers.records.sourceindex import SourceIndex
from penstock.readers.records.tablefolder import part_file
from penstock.runtime.engines.engine import JobShare
from penstock.store.remote.listed import ListedObjects


class _FilesPart(NamedTuple):
    """Small files to index whole, or a segment of one file.

    Attributes:
        table: Rows of the files.
        segment: Segment of the only file; None for small files.
        mark: Where the segment begins, in files where its number does not tell.
    """

    table: FileTable
    segment: int | None = None
    mark: int = 0


@dataclass(frozen=True)
class _PartOfSource:
    """Indexes files of a source: the work of a task.

    Attributes:
        source: Source, without its paths.
        folder: Folder of its tables, in the shelf.
    """

    source: RecordSource
    folder: str

    def __call__(self, part: _FilesPart) -> IndexResult:
        with tempfile.TemporaryDirectory(prefix="penstock-index-") as folder:
            known = KnownFiles(replace(self.source, metadata=Path(folder)), part.table)
            if part.segment is None:
                small = SmallFiles(known)
                name, content = part_file(FileTable.of(small.make(file) for file in range(len(known))))
                return IndexResult({f"{self.folder}/{name}": content})
            SourceIndex(known).file_index(0).make(part.segment, part.mark)
            return IndexResult.of(Path(folder))


class _Unlisted(pickle.Pickler):
    """Pickles without listings of stores, which may name a million objects: workers ask for those they read."""

    def reducer_override(self, thing: Any) -> Any:
        return (ListedObjects, ({},)) if isinstance(thing, ListedObjects) else NotImplemented


def distant_tasks(indexes: Sequence[SourceIndex], share: JobShare) -> Iterator[IndexTask]:
    """Yield what is missing of the indexes of some sources. ``build`` then finds what was made of it.

    Args:
        indexes: Indexes of the sources.
        share: Share of one of several jobs, no two of which make the same.
    """
    for index in indexes:
        folder = index.known.folder.relative_to(index.source.metadata).as_posix()
        pickled = BytesIO()
        _Unlisted(pickled).dump(_PartOfSource(replace(index.source, paths=(), keys={}), folder))
        for part in _missing_parts(index, share):
            yield IndexTask(pickled.getvalue(), part, len(part.table) if part.segment is None else 1)


def _missing_parts(index: SourceIndex, share: JobShare) -> Iterator[_FilesPart]:
    table = index.known.table
    small = SmallFiles(index.known).missing()
    own = [file for file in small if share.has(file // FILES_PER_TASK)]
    for first in range(0, len(own), FILES_PER_TASK):
        yield _FilesPart(table.take(np.array(own[first : first + FILES_PER_TASK])))
    others = set(small)
    for file, segment, mark in missing_segments(index):
        is_own = file not in others and share.has(file + segment)
        if is_own and not index.file_index(file).is_saved(segment):
            yield _FilesPart(table.take(np.array([file])), segment, mark)
