"""Shards -> tables of measured clips. A shard is read once, from end to end.

Knows no rules. A problem with one sample is recorded in its row; only a damaged archive is an error.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from penstock.curate.speech.measured import CLIPS, Measured, table_bytes
from penstock.curate.speech.shardresults import ShardResult
from penstock.media.audio.clip import EXTENSIONS
from penstock.media.audio.quality import Quality, measure
from penstock.media.errors import BadMedia
from penstock.media.span import InMemory
from penstock.readers.tar.archive import TarEntry, walk
from penstock.readers.tar.facts import parse_json
from penstock.readers.tar.layout import Shard
from penstock.readers.tar.samples import TarSample, group, is_text, split_name
from penstock.readers.tar.shardreader import SPAN
from penstock.readers.window import Window
from penstock.store.blob import Blob, Store
from penstock.store.local import LocalBlob, stamp

_BREAKS_A_LINE = re.compile(r"[\t\r\n]")

Row = dict[str, Any]


class _UnusableClip(Exception):
    """Why a sample cannot be in any filelist. Arguments: a kind, which is counted, and a reason."""


def measure_shard(blob: Blob, path: str) -> Measured:
    """Read an open shard from end to end.

    Raises:
        ContentError: If the archive is damaged.
    """
    held: dict[int, bytearray] = {}
    rows = []
    for sample in group(_entries(Window(blob, SPAN), path, held)):
        files = {member.ext: held.pop(member.offset) for member in sample.members if member.offset in held}
        rows.append(_row(sample, path, files))
    repeated = {key for key, count in Counter(row["id"] for row in rows).items() if count > 1}
    for row in rows:
        if row["id"] in repeated:
            row |= {"problem": "name", "why": "several samples of the shard have this name"}
    return Measured(Shard(path, blob.size, stamp(blob)), pa.RecordBatch.from_pylist(rows, schema=CLIPS))


def _entries(window: Window, path: str, held: dict[int, bytearray]) -> Iterator[TarEntry]:
    """All files with their checksums. The bytes of audio and JSON files are put into ``held``, by offset."""
    for entry in walk(window, path):
        named = split_name(entry.name)
        if named and named[1] in ("json", *EXTENSIONS):
            held[entry.offset] = _read(window, entry)
            yield replace(entry, crc=zlib.crc32(held[entry.offset]))
        else:
            crc = 0
            for piece in window.pieces(entry.offset, entry.size):
                crc = zlib.crc32(piece, crc)
            yield replace(entry, crc=crc)


def _read(window: Window, entry: TarEntry) -> bytearray:
    """Read a file in pieces: reading it at once would make the window fetch the beginning of some files twice."""
    data = bytearray()
    for piece in window.pieces(entry.offset, entry.size):
        data += piece  # copied now: the next piece reuses its buffer
    return data


def _row(sample: TarSample, path: str, files: Mapping[str, bytearray]) -> Row:
    row: Row = {
        "id": sample.key if is_text(sample.key) else ascii(sample.key),
        "language": PurePosixPath(path).parent.name or "default",
        "seconds": 0.0,
        "json": bytes(files["json"]) if "json" in files else None,
        "members": [
            {"ext": member.ext, "offset": member.offset, "size": member.size, "crc": member.crc}
            for member in sample.members
            if is_text(member.ext)
        ],
    }
    try:
        if not is_text(sample.key) or _BREAKS_A_LINE.search(sample.key):
            raise _UnusableClip("name", "not UTF-8, or with a tab or a line break, which a filelist cannot hold")
        row["language"] = _language(files) or row["language"]
        quality = _quality(files)
        row |= {name: getattr(quality, name) for name in ("seconds", "clipping", "silence", "snr")}
    except _UnusableClip as error:
        row["problem"], row["why"] = error.args
    return row


def _language(files: Mapping[str, bytearray]) -> str | None:
    try:
        language, _ = parse_json(bytes(files["json"])) if "json" in files else (None, None)
        if language and _BREAKS_A_LINE.search(language):
            raise ValueError(f"language {language!r} has a tab or a line break in it")
        if language:
            language.encode()  # "\ud800" is valid JSON, but not valid UTF-8
    except ValueError as error:
        raise _UnusableClip("json", str(error)) from error
    return language


def _quality(files: Mapping[str, bytearray]) -> Quality:
    audio = next((data for extension, data in files.items() if extension in EXTENSIONS), None)
    if audio is None:
        raise _UnusableClip("audio", f"has none of {', '.join(EXTENSIONS)}")
    try:
        return measure(InMemory(audio))
    except BadMedia as error:
        raise _UnusableClip("audio", str(error)) from error


@dataclass(frozen=True)
class MeasureShard:
    """Measures a shard, in any process: the work of a task."""

    store: Store

    def __call__(self, path: str) -> ShardResult:
        """Measure a shard; see ``measure_shard``."""
        with closing(self.store.open(path)) as blob:
            measured = measure_shard(blob, path)
            digest = blob.digest() if isinstance(blob, LocalBlob) else None
            return ShardResult(blob.version, blob.size, table_bytes(measured, digest))
