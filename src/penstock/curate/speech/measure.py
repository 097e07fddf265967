"""Shards -> tables of measured clips. A shard is read once, from end to end; processes measure several in parallel.

Processes, because reading headers, JSON and short arrays holds the GIL. What an earlier run has measured, even a killed
one, is not read again. Knows no rules. A problem with one sample is recorded in its row; only a damaged archive is an
error.
"""

import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from penstock.curate.speech.measured import CLIPS, Measured, MeasuredFolder
from penstock.manifest.errors import Problems
from penstock.media.audio.clip import EXTENSIONS
from penstock.media.audio.quality import Quality, measure
from penstock.media.errors import BadMedia
from penstock.media.span import InMemory
from penstock.readers.errors import ContentError
from penstock.readers.tar.archive import TarEntry, walk
from penstock.readers.tar.facts import parse_json
from penstock.readers.tar.layout import Shard
from penstock.readers.tar.samples import TarSample, group, is_text, split_name
from penstock.readers.tar.shardreader import SPAN
from penstock.readers.window import Window
from penstock.runtime.processpool import process_pool
from penstock.store.blob import Blob, Store
from penstock.store.local import stamp

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


def all_cores() -> int:
    return len(os.sched_getaffinity(0))


def measure_all(
    store: Store,
    paths: Sequence[str],
    folder: MeasuredFolder,
    workers: int,
    progress: MeasureProgress | None,
    problems: Problems,
) -> dict[str, Version]:
    """Measure every shard into ``folder``. Failures are added to ``problems``.

    Returns:
        Version of each shard that was measured.
    """
    versions: dict[str, Version] = {}
    total = 0
    with closing(_in_order(store, paths, folder, workers)) as run:
        for done, (path, ready) in enumerate(run, 1):
            try:
                versions[path], size = ready()
                total += size
            except ContentError as error:
                problems.add("broken shard", error.where, error.reason)
            except BrokenProcessPool:
                reason = (
                    "a process that measured this or one of the next shards was killed (out of memory?); run it again"
                )
                problems.add("lost process", path, reason)
                break  # the others ended with it
            except (OSError, EOFError) as error:
                problems.add("unreadable shard", path, str(error))
            if progress:
                progress(done, len(paths), total)
    return versions


def measure_one(store: Store, path: str, folder: MeasuredFolder) -> tuple[Version, int]:
    """Measure one shard unless its table is in the folder. Returns the shard's version and size."""
    blob = store.open(path)
    try:
        if folder.load_of(path, blob) is None:
            folder.save(measure_shard(blob, path), blob)
        return blob.version, blob.size
    finally:
        blob.close()


def _in_order(
    store: Store, paths: Sequence[str], folder: MeasuredFolder, workers: int
) -> Generator[tuple[str, Callable[[], tuple[Version, int]]], None, None]:
    workers = min(workers, len(paths))
    if workers <= 1:
        for path in paths:
            yield path, lambda path=path: measure_one(store, path, folder)  # type: ignore[misc]
        return
    with process_pool(workers) as pool:
        futures: list[Future[tuple[Version, int]]] = [pool.submit(measure_one, store, path, folder) for path in paths]
        for path, future in zip(paths, futures, strict=True):
            yield path, future.result
