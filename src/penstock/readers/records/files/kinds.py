"""The kinds of record files, by the ending of their names, and what the files of a source share.

A new kind is a module in this folder with a ``RecordFile``, and a line in ``FILE_KINDS``.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from penstock.readers.blobs import RunVersions
from penstock.readers.errors import ContentError
from penstock.readers.lrucache import LruCache
from penstock.readers.ranges import Ranges
from penstock.readers.records.files.arrowfile import ArrowFiles
from penstock.readers.records.files.csvfile import CsvFile
from penstock.readers.records.files.filebytes import FileBytes, StoredBytes, UnpackedFiles
from penstock.readers.records.files.jsonfile import JsonArray, JsonLines
from penstock.readers.records.files.parquetfile import ParquetFiles
from penstock.readers.records.files.recordfile import RecordFile
from penstock.readers.records.files.tarrecords import TarRecords
from penstock.store.blob import Store
from penstock.store.cache.derived import DerivedStore, Maker
from penstock.store.local import LocalStore, run_version

COMPRESSED = (".gz", ".zst")
_BEGINNING_BYTES = 4_096  # of a .json file: they say whether it is an array
_SAMPLED_BYTES = 1 << 20  # at the beginning and at the end of a local file
_KEPT_FILES = 1_024  # as objects: memory does not grow with the number of files


class RecordFiles:
    """Opens the record files of one store. Any number of threads may use it.

    Args:
        open_store: Opens the store.
        derive: Opens a store of the pieces that a maker makes of the files.
        metadata: Folder of the metadata cache.
        medium: Column that gets the paths of media, for files that describe a folder of media, such as ``image``.
            Empty for other files.
        versions: Versions of the files that another process of the run has seen.

    Attributes:
        ranges: Reads the store by ranges.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        derive: Callable[[Maker], DerivedStore],
        metadata: Path,
        medium: str = "",
        versions: Mapping[str, str] | None = None,
    ) -> None:
        self._open_store = open_store
        self._derive = derive
        self._metadata = metadata
        self._versions = RunVersions(versions or {})
        self._files: LruCache[str, RecordFile] = LruCache(_KEPT_FILES)
        self._unpacked: UnpackedFiles | None = None
        self._parquet: ParquetFiles | None = None
        self._arrow: ArrowFiles | None = None
        self.medium = medium
        self.ranges = Ranges(open_store, versions=self._versions)

    def __reduce__(self) -> tuple[object, ...]:
        return RecordFiles, (self._open_store, self._derive, self._metadata, self.medium, self.ranges.versions())

    def open(self, path: str) -> RecordFile:
        """Return a file. Some kinds read its beginning to choose a class: may wait."""
        return self._files.get_or_make(path, lambda: FILE_KINDS.get(ending(path), _open_lines)(self, path))

    def content(self, path: str) -> FileBytes:
        """Return the bytes of a file, unpacked if its name says that it is compressed. Reads nothing."""
        return self.unpacked_files().open(path) if is_compressed(path) else self.stored(path)

    def stored(self, path: str) -> FileBytes:
        """Return the bytes of a file as it is stored. Reads nothing."""
        return StoredBytes(path, self.ranges)

    def unpacked_files(self) -> UnpackedFiles:
        """Return the compressed files of the store; opens the store of their pieces."""
        if self._unpacked is None:
            self._unpacked = UnpackedFiles(self.ranges, self._derive, self._metadata)
        return self._unpacked

    def parquet_files(self) -> ParquetFiles:
        """Return the Parquet files of the store; opens the store of their pieces."""
        if self._parquet is None:
            self._parquet = ParquetFiles(self.ranges, self._derive, self._metadata)
        return self._parquet

    def arrow_files(self) -> ArrowFiles:
        """Return the Arrow files of the store."""
        if self._arrow is None:
            self._arrow = ArrowFiles(self.ranges, self._open_store, self._metadata, self._versions)
        return self._arrow

    def open_stores(self, paths: Iterable[str]) -> None:
        """Open the store, and the stores of the pieces that are made of some files. Reads no file."""
        self.ranges.open_store()
        for path in paths:
            if ending(path) == ".parquet":
                self.parquet_files()
            elif is_compressed(path):
                self.unpacked_files()

    def stamps(self, paths: Sequence[str]) -> list[tuple[str, int]]:
        """Return for each file a version that no other file of this name ever had, and its size. Opens no local file.

        Raises:
            FileNotFoundError: If a local file is missing.
        """
        store = self.ranges.open_store()
        if isinstance(store, LocalStore):
            return store.stamps(paths)
        return [(store.version(path), self.ranges.size(path)) for path in paths]

    def know(self, stamp: Callable[[str], str | None], version: Callable[[str], str | None]) -> None:
        """Use what is known of files: they need not be opened for it, and files with another stamp are refused.

        Args:
            stamp: Returns what ``stamps`` returned for a file; None if it is not known.
            version: Returns the version by which metadata of a file is found; None if it is not known.
        """

        def version_in_run(path: str) -> str | None:
            found = stamp(path)
            return run_version(found) if found and isinstance(self.ranges.open_store(), LocalStore) else found

        self._versions.known = version_in_run
        self.ranges.known = version

    def content_key(self, path: str) -> str:
        """Return what identifies the content of a file: its version if it is remote, else its size and some bytes.

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
        """Close what is open. The next call opens it again."""
        for shared in (self._unpacked, self._parquet, self._arrow):
            if shared is not None:
                shared.close()
        self.ranges.close()


def _open_lines(files: RecordFiles, path: str) -> RecordFile:
    return JsonLines(files.content(path))


def _open_csv(delimiter: str, files: RecordFiles, path: str) -> RecordFile:
    return CsvFile(files.content(path), delimiter)


def _open_json(files: RecordFiles, path: str) -> RecordFile:
    content = files.content(path)
    first = content.read(0, content.upto(_BEGINNING_BYTES)).tobytes().lstrip(b"\xef\xbb\xbf \t\r\n")
    if first.startswith((b"{\n", b"{\r\n")):
        raise ContentError(
            path, None, "is one JSON object over several lines; expected an array, or one record per line"
        )
    return JsonArray(content) if first.startswith(b"[") else JsonLines(content)


FILE_KINDS: dict[str, Callable[[RecordFiles, str], RecordFile]] = {
    ".json": _open_json,
    ".jsonl": _open_lines,
    ".ndjson": _open_lines,
    ".csv": partial(_open_csv, ","),
    ".tsv": partial(_open_csv, "\t"),
    ".parquet": lambda files, path: files.parquet_files().open(path),
    ".arrow": lambda files, path: files.arrow_files().open(path),
    ".tar": lambda files, path: TarRecords(files.stored(path)),
}
"""How a file is opened, by the ending of its name (without ``.gz`` or ``.zst``)."""

LAYOUTS = ("array-1", "arrow-1", "arrow-2", "csv-1", "lines-1", "parquet-1", "tar-3")
"""Layouts of all kinds. What is known of files is valid for these."""


def ending(path: str) -> str:
    """Return the ending of a file's name that is in ``FILE_KINDS``, in lower case; empty if there is none."""
    name = path.lower()
    for compressed in COMPRESSED:
        name = name.removesuffix(compressed)
    return next((each for each in FILE_KINDS if name.endswith(each)), "")


def is_compressed(path: str) -> bool:
    return path.lower().endswith(COMPRESSED)
