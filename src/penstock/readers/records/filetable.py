"""What is known of all files of a source: one table, which processes map. With it and a listing a run opens no file.

    path      stamp                  version   key     records    items      marks
    a.jsonl   ino-size-mtime-ctime   …         3f2a…   [30, 12]   [29, 12]   [1, None]
    b.jsonl   …                      …         77c0…   []         []         []             not indexed yet

Segments of small files are in the file of the table, too:

    segments of a.jsonl | of b.jsonl | … | table (Arrow) | sizes of both and CRC-32 of the table

Knows no file format, no judge, and not where tables are kept; see ``tablefolder``.
"""

import json
import mmap
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.manifest.idhash import hash_id, hash_ids
from penstock.plan.draws import Ints
from penstock.readers.records.fileindex import Summary
from penstock.runtime.shared import is_for_worker

_TRAILER = struct.Struct("<8sQQI")  # magic, bytes of segments, bytes of the table, CRC-32 of the table
_MAGIC = b"pnstkft1"
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

    def __init__(self, table: pa.Table, segments: memoryview | bytes = b"", path: Path | None = None) -> None:
        self._table = table.combine_chunks()
        self._segments = memoryview(segments)
        self.path = path

    def _column(self, name: str) -> pa.Array:
        chunks = self._table.column(name).chunks
        return chunks[0] if chunks else pa.array([], _SCHEMA.field(name).type)

    def _value(self, column: str, row: int) -> Any:
        return self._column(column)[row].as_py()

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __reduce__(self) -> tuple[object, ...]:
        if is_for_worker() and self.path is not None and self.path.exists():
            return map_table, (self.path,)
        return _from_bytes, (b"".join(self.pieces()),)

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
        found = FileFacts(
            self.text("path", row),
            int(self.sizes[row]),
            self.text("stamp", row),
            self.text("version", row),
            self.text("key", row),
        )
        segments = [self.segment(row, number) for number in range(len(self._segment_sizes(row)))]
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
        return _decoded(self._value(column, row))

    @cached_property
    def sizes(self) -> Ints:
        """Size of each file in bytes."""
        sizes: Ints = self._column("size").to_numpy()
        return sizes

    def summary(self, row: int) -> Summary:
        """Return the totals of a file; without a segment if it is not indexed completely."""
        return Summary(
            tuple(self._value("records", row)),
            tuple(self._value("items", row)),
            tuple(self._value("marks", row)),
            self._value("tokens", row),
            json.loads(self._value("reasons", row) or "{}"),
            json.loads(self._value("losses", row) or "{}"),
        )

    def segment(self, row: int, number: int) -> memoryview | None:
        """Return the index of a segment as bytes; None if it is in the metadata cache, or damaged."""
        sizes = self._segment_sizes(row)
        if not sizes:
            return None
        start = int(self._segment_starts[row]) + sum(sizes[:number])
        data = self._segments[start : start + sizes[number]]
        return data[:-4] if zlib.crc32(data[:-4]) == int.from_bytes(data[-4:], "little") else None

    def _segment_sizes(self, row: int) -> list[int]:
        sizes: list[int] = self._value("segments", row)
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

    def pieces(self) -> tuple[memoryview, memoryview, bytes]:
        """Return the content of a file with the table: segments, table and trailer."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, _SCHEMA) as writer:
            writer.write_table(self._table)
        table = memoryview(sink.getvalue())
        return self._segments, table, _TRAILER.pack(_MAGIC, len(self._segments), len(table), zlib.crc32(table))


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _decoded(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _checksum(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")


def _as_json(counts: Mapping[str, int]) -> str:
    return json.dumps(counts) if counts else ""


def map_table(path: Path) -> FileTable:
    """Return the table in a file, which is mapped into memory.

    Raises:
        OSError: If it can't be read.
        ValueError: If it is damaged.
    """
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
