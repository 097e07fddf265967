"""Shards -> tables of measured clips. A shard is read once, from end to end; an engine measures several in parallel.

What an earlier run has measured, even a killed one, is not read again. Knows no rules. A problem with one sample is
recorded in its row; only a damaged archive is an error.
"""

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.curate.speech.measured import CLIPS, Measured, MeasuredFolder, table_bytes
from penstock.manifest.errors import Problems
from penstock.media.audio.clip import EXTENSIONS
from penstock.media.audio.quality import Quality, measure
from penstock.media.errors import BadMedia
from penstock.media.span import InMemory
from penstock.readers.tar.archive import TarEntry, walk
from penstock.readers.tar.facts import parse_json
from penstock.readers.tar.index import SHARD_ERRORS, shard_problem
from penstock.readers.tar.layout import Shard
from penstock.readers.tar.samples import TarSample, group, is_text, split_name
from penstock.readers.tar.shardreader import SPAN
from penstock.readers.window import Window
from penstock.runtime.engines.engine import Engine, ThreadEngine
from penstock.store.blob import Blob, Store
from penstock.store.local import LocalBlob, stamp

_OPEN_AT_ONCE = 8  # shards that are compared with their tables
_BREAKS_A_LINE = re.compile(r"[\t\r\n]")

Row = dict[str, Any]
MeasureProgress = Callable[[int, int, int], None]
"""Called with shards done, shards in all, and bytes of the shards done."""

Version = str


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


class MeasuredShard(NamedTuple):
    """What was measured of a shard.

    Attributes:
        version: Version of the shard.
        size: Size of the shard.
        table: Result of ``table_bytes``.
    """

    version: Version
    size: int
    table: bytes


@dataclass(frozen=True)
class MeasureShard:
    """Measures a shard, in any process: the work of a task."""

    store: Store

    def __call__(self, path: str) -> MeasuredShard:
        """Measure a shard; see ``measure_shard``."""
        with closing(self.store.open(path)) as blob:
            measured = measure_shard(blob, path)
            digest = blob.digest() if isinstance(blob, LocalBlob) else None
            return MeasuredShard(blob.version, blob.size, table_bytes(measured, digest))


@dataclass(frozen=True)
class _FindMeasured:
    """Finds the version and the size of a shard whose table is in the folder."""

    store: Store
    folder: MeasuredFolder

    def __call__(self, path: str) -> tuple[Version, int] | None:
        try:
            with closing(self.store.open(path)) as blob:
                return None if self.folder.load_of(path, blob) is None else (blob.version, blob.size)
        except (OSError, EOFError):  # whoever measures it meets the error again
            return None


def measure_all(
    store: Store,
    paths: Sequence[str],
    folder: MeasuredFolder,
    engine: Engine,
    progress: MeasureProgress | None,
    problems: Problems,
) -> dict[str, Version]:
    """Measure every shard whose table is not in ``folder``, and keep its table there.

    Args:
        store: Store of the shards.
        paths: Paths of the shards.
        folder: Folder of the tables. Workers of the engine do not need it.
        engine: Engine that measures.
        progress: Function to call after each shard.
        problems: Problems, to which failures are added in the order of the shards.

    Returns:
        Version of each shard that was measured, in the order of the shards.
    """
    found = _measured_already(store, paths, folder)
    versions = {path: version for path, (version, _) in found.items()}
    total = sum(size for _, size in found.values())
    failed: dict[str, tuple[str, str, str]] = {}
    todo = [path for path in paths if path not in found]
    if found and progress:
        progress(len(found), len(paths), total)
    with closing(engine.map(MeasureShard(store), todo)) as outcomes:
        for done, outcome in enumerate(outcomes, len(found) + 1):
            try:
                measured = outcome.get()
            except SHARD_ERRORS as error:
                failed[outcome.task] = shard_problem(outcome.task, error)
            else:
                folder.keep(outcome.task, measured.version, measured.table)
                versions[outcome.task] = measured.version
                total += measured.size
            if progress:
                progress(done, len(paths), total)
    for path in paths:
        if path in failed:
            problems.add(*failed[path])
    return {path: versions[path] for path in paths if path in versions}


def _measured_already(store: Store, paths: Sequence[str], folder: MeasuredFolder) -> dict[str, tuple[Version, int]]:
    """Return version and size of the shards whose tables are in the folder."""
    if folder.is_empty:
        return {}
    found = {each.task: each.get() for each in ThreadEngine(_OPEN_AT_ONCE).map(_FindMeasured(store, folder), paths)}
    return {path: each for path, each in found.items() if each is not None}
