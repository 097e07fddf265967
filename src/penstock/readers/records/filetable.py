"""What is known of all files of a source: one table, which processes map. With it and a listing a run opens no file.

    path      stamp                  version   key     records    items      marks
    a.jsonl   ino-size-mtime-ctime   …         3f2a…   [30, 12]   [29, 12]   [1, None]
    b.jsonl   …                      …         77c0…   []         []         []             not indexed yet

Segments of small files are in the file of the table, too:

    segments of a.jsonl | of b.jsonl | … | table (Arrow) | sizes of both and CRC-32 of the table

Tables of a source are in a folder of their own, named by their content. The newest one counts, with the parts that a
process has written since, which makes a new one. An older one stays for an hour: processes that opened it may start
workers. Knows no file format and no judge.
"""

import hashlib
import json
import mmap
import os
import struct
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.manifest.idhash import hash_id, hash_ids
from penstock.manifest.publish import locked
from penstock.plan.draws import Ints
from penstock.readers.metadatacache import make_folder
from penstock.readers.records.fileindex import Summary
from penstock.runtime.atomicwrite import write_atomically
from penstock.runtime.shared import is_for_worker

_TABLE = ".table"
_PART = ".part"
_STORE = ".store"
_TRAILER = struct.Struct("<8sQQI")  # magic, bytes of segments, bytes of the table, CRC-32 of the table
_MAGIC = b"pnstkft1"
_KEPT_SECONDS = 3_600  # that an older table stays
_NAME = pa.large_binary()  # not text: names of files need not be UTF-8
_NUMBERS = pa.large_list(pa.int64())
_SCHEMA = pa.schema(
    {
        "path": _NAME,
        "size": pa.int64(),
        "stamp": _NAME,
        "version": _NAME,
        "key": _NAME,
        "records": _NUMBERS,
        "items": _NUMBERS,
        "marks": _NUMBERS,
        "tokens": pa.int64(),
        "reasons": pa.large_string(),
        "losses": pa.large_string(),
        "segments": _NUMBERS,  # bytes of each segment that is in the file of the table
    }
)


@dataclass(frozen=True)
class FileFacts:
    """What is known of a file.

    Attributes:
        path: Path in the store.
        size: Size in bytes.
        stamp: Version that a listing shows: with the ctime of a local file, or an ETag.
        version: Version by which cached metadata is found; see ``store.fileversions``. It may outlive a new ctime.
            Empty until the file is looked at, as is ``key``.
        key: Digest of the content, for fingerprints.
        summary: Totals of its index; without a segment if it is not indexed completely.
        segments: Index of each segment as bytes, for a small file; empty if they are in the metadata cache.
    """

    path: str
    size: int
    stamp: str
    version: str = ""
    key: str = ""
    summary: Summary = field(default_factory=Summary)
    segments: Sequence[bytes] = ()


class FileTable:
    """Facts of the files of a source, in order. Any number of threads may use it.

    Args:
        table: Arrow table with the columns of ``_SCHEMA``.
        segments: Segments of small files, one after the other.
        path: File that holds it; None if no file does.
    """

    def __init__(self, table: pa.Table, segments: "memoryview | bytes" = b"", path: Path | None = None) -> None:
        self._table = table.combine_chunks()
        self._segments = memoryview(segments)
        self.path = path

    def _column(self, name: str) -> pa.Array:
        chunks = self._table.column(name).chunks
        return chunks[0] if chunks else pa.array([], _SCHEMA.field(name).type)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __reduce__(self) -> tuple[object, ...]:
        if is_for_worker() and self.path is not None and self.path.exists():
            return _mapped, (self.path,)
        return _from_bytes, (b"".join(self._pieces()),)

    @classmethod
    def of(cls, rows: Iterable[FileFacts]) -> "FileTable":
        """Return a table of some rows."""
        rows = list(rows)
        summaries = [row.summary if row.summary.complete else Summary() for row in rows]
        columns = {
            "path": [_encoded(row.path) for row in rows],
            "size": [row.size for row in rows],
            "stamp": [_encoded(row.stamp) for row in rows],
            "version": [_encoded(row.version) for row in rows],
            "key": [_encoded(row.key) for row in rows],
            "records": [each.records for each in summaries],
            "items": [each.items for each in summaries],
            "marks": [each.marks for each in summaries],
            "tokens": [each.tokens for each in summaries],
            "reasons": [_as_json(each.reasons) for each in summaries],
            "losses": [_as_json(each.losses) for each in summaries],
            "segments": [[len(each) + 4 for each in row.segments] for row in rows],
        }
        pieces = [piece for row in rows for each in row.segments for piece in (each, _checksum(each))]
        return cls(pa.table(columns, _SCHEMA), b"".join(pieces))

    def facts(self, row: int) -> FileFacts:
        """Return a row."""
        path, stamp, version, key = (self.text(column, row) for column in ("path", "stamp", "version", "key"))
        found = FileFacts(path, int(self.sizes()[row]), stamp, version, key)
        segments = [self.segment(row, number) for number in range(len(self._sizes(row)))]
        if None in segments:  # damaged
            return found
        return replace(
            found, summary=self.summary(row), segments=[bytes(each) for each in segments if each is not None]
        )

    def take(self, rows: Ints) -> "FileTable":
        """Return a table of some rows of this one."""
        starts = self._segment_starts
        pieces = [self._segments[starts[row] : starts[row + 1]] for row in rows.tolist()] if len(self._segments) else []
        return FileTable(self._table.take(pa.array(rows)), b"".join(pieces))

    def joined(self, *others: "FileTable") -> "FileTable":
        """Return a table of the rows of all."""
        every = (self, *others)
        return FileTable(pa.concat_tables([each._table for each in every]), b"".join(each._segments for each in every))

    def texts(self, column: str) -> list[str]:
        """Return a column of texts."""
        return [_decoded(each) for each in self._table.column(column).to_pylist()]

    def text(self, column: str, row: int) -> str:
        """Return a text of a row."""
        return _decoded(self._column(column)[row].as_py())

    def sizes(self) -> Ints:
        """Return the size of each file in bytes."""
        return self._file_sizes

    @cached_property
    def _file_sizes(self) -> Ints:
        sizes: Ints = self._column("size").to_numpy()
        return sizes

    def summary(self, row: int) -> Summary:
        """Return the totals of a file; without a segment if it is not indexed completely."""
        value = {name: self._column(name)[row].as_py() for name in _SCHEMA.names[5:11]}
        return Summary(
            tuple(value["records"]),
            tuple(value["items"]),
            tuple(value["marks"]),
            value["tokens"],
            json.loads(value["reasons"] or "{}"),
            json.loads(value["losses"] or "{}"),
        )

    def segment(self, row: int, number: int) -> memoryview | None:
        """Return the index of a segment as bytes; None if it is in the metadata cache, or damaged."""
        sizes = self._sizes(row)
        if not sizes:
            return None
        start = int(self._segment_starts[row]) + sum(sizes[:number])
        data = self._segments[start : start + sizes[number]]
        return data[:-4] if zlib.crc32(data[:-4]) == int.from_bytes(data[-4:], "little") else None

    def _sizes(self, row: int) -> list[int]:
        sizes: list[int] = self._column("segments")[row].as_py()
        return sizes

    @cached_property
    def _segment_starts(self) -> Ints:
        sizes = self._column("segments")
        each = np.concatenate([[0], np.cumsum(sizes.values.to_numpy(zero_copy_only=False))]).astype(np.int64)
        starts: Ints = each[sizes.offsets.to_numpy()]
        return starts

    def row(self, path: str) -> int | None:
        """Return the row of a file; None if there is none."""
        hashes, rows = self._hashes
        name = hash_id(path)
        for at in range(int(hashes.searchsorted(name)), int(hashes.searchsorted(name, side="right"))):
            if self.text("path", int(rows[at])) == path:
                return int(rows[at])
        return None

    @cached_property
    def _hashes(self) -> tuple["np.ndarray[tuple[int], np.dtype[np.uint64]]", Ints]:
        """Hashes of all paths, sorted, and their rows: a tenth of the memory of a dict."""
        paths = self._column("path")
        found = hash_ids(pa.LargeStringArray.from_buffers(len(paths), *paths.buffers()[1:], offset=paths.offset))
        rows = np.argsort(found)
        return found[rows], rows

    def unchanged(self, paths: Sequence[str], stamps: Sequence[str]) -> Ints:
        """Return the row of each listed file; -1 for a file that is new, or has another stamp."""
        if not len(self):
            return np.full(len(paths), -1)
        names = pa.array(map(_encoded, paths), _NAME)
        if self._column("path").equals(names):
            rows = np.arange(len(paths))
        else:
            rows = pc.index_in(names, self._table.column("path")).fill_null(-1).to_numpy()
        known = self._table.column("stamp").take(pa.array(np.maximum(rows, 0)))
        same = pc.equal(known, pa.array(map(_encoded, stamps), _NAME)).to_numpy()
        return np.where(same & (rows >= 0), rows, -1)

    def is_indexed(self) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        """Return for each file whether it is indexed completely."""
        return self.segment_counts() > 0

    def segment_counts(self) -> Ints:
        """Return the number of segments per file; 0 if it is not indexed completely."""
        counts: Ints = pc.list_value_length(self._column("items")).to_numpy()
        return counts

    def segment_items(self) -> Ints:
        """Return the number of items per segment, file by file."""
        items: Ints = pc.list_flatten(self._column("items")).to_numpy()
        return items

    def total(self, column: str) -> int:
        """Return the sum of a column of numbers, or of lists of numbers."""
        found = self._table.column(column)
        return int(pc.sum(pc.list_flatten(found) if found.type == _NUMBERS else found).as_py() or 0)

    def counted(self, column: str) -> Iterator[dict[str, int]]:
        """Yield counts by reason, of all files that have the same ones."""
        for each in pc.value_counts(self._table.column(column)).to_pylist():
            reasons = json.loads(each["values"] or "{}")
            yield {reason: count * each["counts"] for reason, count in reasons.items()}

    def _pieces(self) -> tuple[memoryview, memoryview, bytes]:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, _SCHEMA) as writer:
            writer.write_table(self._table)
        table = memoryview(sink.getvalue())
        return self._segments, table, _TRAILER.pack(_MAGIC, len(self._segments), len(table), zlib.crc32(table))

    def write(self, folder: Path) -> "FileTable":
        """Write the table, and remove parts and old tables.

        Args:
            folder: Folder of the source's tables.

        Returns:
            The table as it is mapped.

        Raises:
            OSError: If it can't be written, as on a full disk.
        """
        parts = _written(folder, _PART)
        path = self._write(folder, _TABLE)
        old = [each for each in _written(folder, _TABLE) if each != path and time.time() - _time(each) > _KEPT_SECONDS]
        for each in (*parts, *old):
            each.unlink(missing_ok=True)
        return _mapped(path)

    def as_part(self) -> tuple[str, bytes]:
        """Return name and content of a file with rows that the next table will have."""
        pieces = self._pieces()
        return _name(pieces, _PART), b"".join(pieces)

    def write_part(self, folder: Path) -> None:
        """Write rows that the next table will have. Takes no lock: several machines may do so at once."""
        name, content = self.as_part()
        make_folder(folder.parent)
        make_folder(folder)
        write_atomically(folder / name, [content], sync=True, shared=True)

    def _write(self, folder: Path, suffix: str) -> Path:
        pieces = self._pieces()
        make_folder(folder.parent)
        make_folder(folder)
        path = folder / _name(pieces, suffix)
        with locked(folder / ".lock"):
            write_atomically(path, pieces, sync=True)
        return path


def _name(pieces: "Sequence[bytes | memoryview]", suffix: str) -> str:
    """Return the name of the file of a table or part, which is a digest of its content."""
    return f"{hashlib.sha256(pieces[1]).hexdigest()[:32]}{suffix}"


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _decoded(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _checksum(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")


def _as_json(counts: "dict[str, int] | object") -> str:
    return json.dumps(counts) if counts else ""


def note_store(folder: Path, store: str) -> None:
    """Note which store the tables of a folder are about."""
    with suppress(OSError):  # read-only
        if noted_store(folder) != store:
            write_atomically(folder / _STORE, [_encoded(store)], shared=True)


def noted_store(folder: Path) -> str | None:
    """Return the identity of the store that the tables of a folder are about; None if it was not noted."""
    with suppress(OSError):
        return _decoded((folder / _STORE).read_bytes())
    return None


def newest_table(folder: Path) -> FileTable:
    """Return the table that was written last, with the parts written since; an empty one if all are damaged."""
    parts = list(_readable(_written(folder, _PART)))
    table = next(_readable(_written(folder, _TABLE)), FileTable.of([]))
    if table.path is not None:
        with suppress(OSError):  # read-only, or of another user
            os.utime(
                table.path, (time.time(), _time(table.path))
            )  # it is in use: ``readers.shelf`` removes what is not
    return parts[0].joined(*parts[1:], table) if parts else table  # of two rows of a file the first counts


def _readable(paths: Sequence[Path]) -> Iterator[FileTable]:
    for path in paths:
        with suppress(OSError, ValueError, pa.ArrowException):
            yield _mapped(path)


def _written(folder: Path, suffix: str) -> list[Path]:
    """Return the files of a folder, the newest first."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = [folder / name for name in names if name.endswith(suffix) and not name.startswith(".")]
    return sorted(found, key=_time, reverse=True)


def _time(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _mapped(path: Path) -> FileTable:
    with open(path, "rb") as file:
        return _from_bytes(memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)), path)


def _from_bytes(data: bytes | memoryview, path: Path | None = None) -> FileTable:
    """Return the table that a file holds.

    Raises:
        ValueError: If it is damaged.
    """
    whole = memoryview(data)
    if len(whole) < _TRAILER.size:
        raise ValueError(f"{path}: a table of files is damaged")
    magic, segments, size, checksum = _TRAILER.unpack(whole[-_TRAILER.size :])
    table = whole[segments : segments + size]
    if (magic, segments + size) != (_MAGIC, len(whole) - _TRAILER.size) or zlib.crc32(table) != checksum:
        raise ValueError(f"{path}: a table of files is damaged")
    return FileTable(pa.ipc.open_file(pa.BufferReader(pa.py_buffer(table))).read_all(), whole[:segments], path)
