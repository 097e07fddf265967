"""The files of a source, by the endings of their names. Opens nothing."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from penstock.readers.arrow.mapped import MappedTables
from penstock.readers.arrow.messages import HEAD, Head
from penstock.readers.errors import ContentError
from penstock.readers.metadata import MetadataFinder
from penstock.readers.parquet.footer import FOOTER
from penstock.readers.parquet.unpack import Unpack as UnpackRows
from penstock.readers.ranges import Ranges
from penstock.readers.records.arrowfile import ArrowFile
from penstock.readers.records.batchfile import BatchFile
from penstock.readers.records.content import Content
from penstock.readers.records.described import Described
from penstock.readers.records.layouts import Array, Csv, Layout, Lines
from penstock.readers.records.recordfile import RecordFile
from penstock.readers.records.spanfile import SpanFile
from penstock.readers.records.strides import Plain, Unpacked
from penstock.readers.records.tablefile import ParquetFile
from penstock.readers.records.tarrecords import TarRecords
from penstock.store.blob import Store
from penstock.store.cache.derived import DerivedStore, Maker
from penstock.store.local import LocalStore

COMPRESSED = (".gz", ".zst")
_LAYOUTS: dict[str, Callable[[], Layout]] = {
    ".jsonl": Lines,
    ".ndjson": Lines,
    ".csv": lambda: Csv(","),
    ".tsv": lambda: Csv("\t"),
}
ENDINGS = (".json", *_LAYOUTS, ".parquet", ".arrow", ".tar")
_KEPT_FOOTERS = 64
_SAMPLED_BYTES = 1 << 20  # at the beginning and at the end of a local file


def ending(path: str) -> str:
    """Return the ending of a file that says how its records lie, in lower case; empty if it is none of ``ENDINGS``."""
    name = path.lower()
    for compressed in COMPRESSED:
        name = name.removesuffix(compressed)
    return next((each for each in ENDINGS if name.endswith(each)), "")


def is_compressed(path: str) -> bool:
    return path.lower().endswith(COMPRESSED)


class Files:
    """Opens files of records of one store. Any number of threads may use it.

    Args:
        open_store: opens the store.
        derive: opens a store of pieces that a maker makes of the files.
        shelf: the folder of what was learnt about files.
        medium: of files that describe a folder of media: the column that gets their paths. Empty for other files.
        versions: of the files, as another process of the run has seen them.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        derive: Callable[[Maker], DerivedStore],
        shelf: Path,
        medium: str = "",
        versions: Mapping[str, str] | None = None,
    ) -> None:
        self._open_store = open_store
        self._derive = derive
        self._shelf = shelf
        self._medium = medium
        self._versions = dict(versions or {})
        self.ranges = Ranges(open_store, versions=self._versions)
        self._files: dict[str, RecordFile] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Files, (self._open_store, self._derive, self._shelf, self._medium, self.ranges.versions())

    def open(self, path: str) -> RecordFile:
        """Return a file of records. Of ``.json`` and ``.arrow`` the beginning says how records lie: may wait then."""
        if path not in self._files:
            file = self._new(path)
            self._files[path] = Described(file, self._medium) if self._medium else file
        return self._files[path]

    def open_stores(self, paths: Iterable[str]) -> None:
        """Open the store, and those of pieces that are made of some files. Reads none of them."""
        self.ranges.open_store()
        for path in paths:
            if ending(path) == ".parquet":
                self._row_groups  # noqa: B018
            elif is_compressed(path):
                self._unpacked  # noqa: B018

    def _new(self, path: str) -> RecordFile:
        kind = ending(path)
        if kind == ".parquet":
            return ParquetFile(path, self.ranges, self._footers, self._row_groups, self._row_group_pieces)
        if kind == ".arrow":
            head = self._heads.get(path)
            if head.schema:
                return BatchFile(path, self.ranges, head, self._tables)
            return ArrowFile(path, self._open_store, self._tables)
        if kind == ".tar":
            return TarRecords(Content(self._plain, path))
        content = Content(self._unpacked if is_compressed(path) else self._plain, path)
        if kind == ".json":
            first = content.read(0, content.upto(4096)).tobytes().lstrip(b"\xef\xbb\xbf \t\r\n")
            if first.startswith((b"{\n", b"{\r\n")):
                raise ContentError(
                    path, None, "is one JSON object over several lines; expected an array, or one record per line"
                )
            return SpanFile(content, Array() if first.startswith(b"[") else Lines())
        return SpanFile(content, _LAYOUTS.get(kind, Lines)())

    @cached_property
    def _plain(self) -> Plain:
        return Plain(self.ranges)

    @cached_property
    def _unpacked(self) -> Unpacked:
        return Unpacked(self.ranges, self._derive, self._shelf)

    @cached_property
    def _footers(self) -> MetadataFinder[Any]:
        return MetadataFinder(FOOTER, self.ranges, self._shelf, _KEPT_FOOTERS)

    @cached_property
    def _heads(self) -> MetadataFinder[Head]:
        return MetadataFinder(HEAD, self.ranges, self._shelf, _KEPT_FOOTERS)

    @cached_property
    def _row_groups(self) -> DerivedStore:
        return self._derive(UnpackRows(self.ranges, None, self._shelf))

    @cached_property
    def _row_group_pieces(self) -> MappedTables:
        store = self._row_groups
        return MappedTables(lambda: store)

    @cached_property
    def _tables(self) -> MappedTables:
        return MappedTables(self._open_store, self._versions)

    def content_key(self, path: str) -> str:
        """Return what names the content of a file: its version in a remote store; of a local file size and some bytes.

        A copy of a local file has the same key.
        """
        store = self.ranges.open_store()
        if not isinstance(store, LocalStore):
            return store.version(path)
        size = self.ranges.size(path)
        digest = hashlib.sha256(str(size).encode())
        for start, end in ((0, min(size, _SAMPLED_BYTES)), (max(0, size - _SAMPLED_BYTES), size)):
            digest.update(self.ranges.read(path, (start, end), size, start, end))
        return digest.hexdigest()[:16]

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self.ranges.close()
