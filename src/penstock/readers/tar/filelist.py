"""A filelist -> a compiled manifest: ``shard <TAB> id <TAB> language <TAB> seconds``, one clip per line.

The whole file is read and checked by columns. If a check fails, the file is read again, line by line, to report what is
wrong (see explain.py).
"""

import hashlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from penstock.manifest.errors import ManifestError
from penstock.manifest.idhash import hash_ids, string_buffers
from penstock.manifest.publish import publish
from penstock.readers.tar.explain import COLUMNS, MAX_SECONDS, find_problems
from penstock.readers.tar.layout import VERSION, Shard
from penstock.readers.tar.manifest import TarManifest
from penstock.readers.tar.writer import ItemTable, microseconds, write_files, write_manifest
from penstock.store.fileversions import FileVersions
from penstock.store.local import LocalBlob

_BLOCK_BYTES = 16 << 20
_NAME = pa.dictionary(pa.int32(), pa.string())


def open_filelist(
    filelist: str | Path,
    compiled: str | Path,
    *,
    known_shards: Callable[[], Collection[str] | None] = lambda: None,
) -> TarManifest:
    """Return the manifest of a filelist, compiled if necessary.

    A filelist is identified by its path and its version; see ``FileVersions``. If one changes, it is compiled again.

    Args:
        filelist: Filelist.
        compiled: Folder of compiled manifests.
        known_shards: Function that returns the paths of all shards, or None if unknown. Called only to compile.

    Raises:
        ManifestError: If the filelist has problems; the message lists them.
    """
    path = Path(filelist).resolve()
    _require_file(path)
    file = LocalBlob(path)
    versions = FileVersions(Path(compiled), str(path.parent))
    version = versions.get(path.name, file)
    key = hashlib.sha256(f"{VERSION}\n{path}\n{version}".encode(errors="surrogateescape")).hexdigest()[:16]
    out = Path(compiled) / f"{path.stem}-{key}"

    def compile_into(folder: Path) -> None:
        items = read_filelist(path, known_shards=known_shards())
        if LocalBlob(path).version != file.version:
            raise ManifestError(f"{path}: changed while it was read; try again when it is complete")
        write_files(items, folder)

    if not out.exists():
        publish(out, compile_into, keep=True)
        versions.keep(path.name, file)
    try:
        return TarManifest(out)
    except ManifestError:  # it was damaged
        publish(out, compile_into)
        return TarManifest(out)


def compile_filelist(filelist: str | Path, out: str | Path) -> TarManifest:
    """Compile a filelist to the folder ``out``, replacing a manifest that is there.

    Raises:
        ManifestError: If the filelist has problems; the message lists them.
    """
    write_manifest(read_filelist(filelist), Path(out))
    return TarManifest(out)


def read_filelist(filelist: str | Path, *, known_shards: Collection[str] | None = None) -> ItemTable:
    """Return the rows of a filelist.

    Raises:
        ManifestError: If the filelist has problems; the message lists them.
    """
    path = Path(filelist)
    _require_file(path)
    why = ""
    try:
        items = _parse(path)
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        items = None
        why = str(error)
    if items is None or not _sound(items, known_shards):
        problems = find_problems(path, known_shards)
        if problems:
            raise problems.error()
        # Two ids with equal hashes fail the fast check. The check line by line decides.
        if items is None or not len(items.ids):
            raise ManifestError(f"{path}: {_unreadable(path, why)}")
    return items


def _unreadable(path: Path, why: str) -> str:
    with open(path, "rb") as file:
        if any(line.strip(b"\xef\xbb\xbf\r\n") for line in file):
            return f"cannot be read as four columns that are separated by tabs ({why})"
    return "has no lines; write one per clip: shard, id, language and seconds, separated by tabs"


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: {'is a folder, not a filelist' if path.is_dir() else 'no such filelist'}")


def _parse(path: Path) -> ItemTable:
    with open(path, "rb", buffering=0) as file:
        table = csv.read_csv(
            pa.PythonFile(file),
            read_options=csv.ReadOptions(column_names=COLUMNS, block_size=_BLOCK_BYTES),
            parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types=dict(zip(COLUMNS, (_NAME, pa.large_string(), _NAME, pa.float64()), strict=True)),
                null_values=[],
            ),
        ).unify_dictionaries()
    shard, ids, language, seconds = (_one(column) for column in table.columns)
    return ItemTable(
        ids,
        seconds.to_numpy(),
        shard.indices.to_numpy(),
        language.indices.to_numpy(),
        [Shard(path, None, None) for path in shard.dictionary.to_pylist()],
        language.dictionary.to_pylist(),
    )


def _one(column: pa.ChunkedArray) -> Any:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _sound(items: ItemTable, known_shards: Collection[str] | None) -> bool:
    """Return whether the rows have no problem, by fast checks of whole columns."""
    paths = {shard.path for shard in items.shards}
    return (
        len(items.ids) > 0
        and "" not in paths
        and "" not in items.sources
        and bool(np.all(np.diff(string_buffers(items.ids)[0]) > 0))
        and bool(np.all(np.isfinite(items.seconds) & (items.seconds <= MAX_SECONDS)))
        and bool(np.all(microseconds(items.seconds) > 0))
        and (known_shards is None or set(known_shards).issuperset(paths))
        and not _may_repeat(items)
    )


def _may_repeat(items: ItemTable) -> bool:
    """Return whether two rows have the same shard and the same hash of the id."""
    # Pairs are hashed: ids that are in many shards would give long runs of equal keys.
    pairs = hash_ids(items.ids) ^ (items.shard.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    pairs.sort()
    return bool(np.any(pairs[1:] == pairs[:-1]))
