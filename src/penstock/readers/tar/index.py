"""Tar shards -> an indexed manifest, which has the place and the checksum of every member.

The source of a sample is the ``language`` of its .json, else the folder of its shard (``default`` without one). Its
duration is the ``duration`` of its .json, else that of the header of its WAV, FLAC or Ogg file, else 0: unknown, and
the source cannot be weighted by hours. With a filelist, the rows of the filelist are indexed, with its order, languages
and durations. The manifest then has the fingerprint of the filelist, so a run that began with the filelist can continue
with it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.manifest.errors import Problems
from penstock.readers.errors import ContentError
from penstock.readers.tar.filelist import read_filelist
from penstock.readers.tar.layout import HASHED_MEMBER, MEMBER
from penstock.readers.tar.manifest import TarManifest
from penstock.readers.tar.shardindex import MAX_EXTENSIONS
from penstock.readers.tar.shardreader import ShardContents, read_shard
from penstock.readers.tar.writer import ItemTable, Members, write_manifest
from penstock.runtime.daemons import DaemonPool
from penstock.store.blob import Store

Number = TypeVar("Number", bound=np.generic)

IndexProgress = Callable[[int, int, int], None]
"""Called with the number of shards done, the number of all shards, and the bytes read."""


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
    """Index shards of a store.

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
    wanted = sorted(set(paths) if rows is None else {shard.path for shard in rows.shards})
    problems = Problems(str(filelist or out))
    read = partial(read_shard, store, described=rows is not None, sha256=sha256)
    contents = _read_all(read, wanted, threads, progress, problems)
    items = _all_items(contents, problems) if rows is None else _listed_items(rows, contents, problems)
    if problems:
        raise problems.error()
    write_manifest(replace(items, store=store.url), Path(out))
    return TarManifest(out)


def _read_all(
    read_one: Callable[[str], ShardContents],
    paths: Sequence[str],
    threads: int,
    progress: IndexProgress | None,
    problems: Problems,
) -> list[ShardContents]:
    contents: list[ShardContents] = []
    size = 0
    with DaemonPool(threads, "penstock-index") as pool:
        reads = [pool.submit(read_one, path) for path in paths]
        for done, (path, read) in enumerate(zip(paths, reads, strict=True), 1):
            try:
                found = read.result()
            except ContentError as error:
                problems.add("broken shard", error.where, error.reason)
            except (OSError, EOFError) as error:
                problems.add("unreadable shard", path, str(error))
            else:
                contents.append(found)
                size += found.shard.size or 0
                for problem in found.problems:
                    problems.add("sample", problem.where, problem.reason)
            if progress:
                progress(done, len(paths), size)
    return contents


def _all_items(contents: list[ShardContents], problems: Problems) -> ItemTable:
    """Return every sample of every shard."""
    for each in contents:
        for key, count in Counter(each.index.keys.to_pylist()).items():
            if count > 1:
                problems.add("duplicate", f"{each.shard.path}:{key}", f"{count} samples with this key in the shard")
    sources = sorted({source for each in contents for source in each.sources})
    code = {source: place for place, source in enumerate(sources)}
    keys = [each.index.keys for each in contents]
    return ItemTable(
        pa.concat_arrays(keys) if keys else pa.array([], type=pa.large_string()),
        np.array([seconds for each in contents for seconds in each.seconds], dtype=np.float64),
        np.repeat(np.arange(len(contents), dtype=np.int32), [len(each) for each in keys]),
        np.array([code[source] for each in contents for source in each.sources], dtype=np.int32),
        [each.shard for each in contents],
        sources,
        _members(contents, problems),
    )


def _listed_items(rows: ItemTable, contents: list[ShardContents], problems: Problems) -> ItemTable:
    """Return the rows of a filelist, with the places of their members."""
    by_path = {each.shard.path: (number, each) for number, each in enumerate(contents)}
    starts = np.cumsum([0, *(len(each.index.keys) for each in contents)])
    samples = np.zeros(len(rows.ids), dtype=np.int64)
    for row, (key, shard) in enumerate(zip(rows.ids.to_pylist(), rows.shard.tolist(), strict=True)):
        path = rows.shards[shard].path
        if path not in by_path:
            continue  # the shard could not be read, which is already reported
        number, each = by_path[path]
        try:
            samples[row] = starts[number] + each.index.sample(key)
        except ContentError as error:
            problems.add("sample", error.where, error.reason)
    if problems:
        return rows
    members = _members(contents, problems)
    shards = [by_path[shard.path][1].shard for shard in rows.shards]
    return replace(rows, shards=shards, members=Members(members.column.take(pa.array(samples)), members.extensions))


def _members(contents: list[ShardContents], problems: Problems) -> Members:
    """Return the members of every sample of every shard, with one numbering of extensions for all."""
    extensions = sorted({extension for each in contents for extension in each.index.places.extensions})
    if len(extensions) > MAX_EXTENSIONS:
        reason = f"{len(extensions):,} different extensions in all shards; at most {MAX_EXTENSIONS:,} are supported"
        problems.add("extensions", problems.name, reason)
    code = {extension: place for place, extension in enumerate(extensions)}
    starts = [np.zeros(1, dtype=np.int64)]
    ext = []
    total = 0
    for each in contents:
        places = each.index.places
        ext.append(np.array([code[name] for name in places.extensions], dtype=np.int64)[places.ext].astype(np.uint16))
        starts.append(each.index.starts[1:] + total)
        total += len(places.ext)
    columns = [
        _joined(ext, np.uint16),
        _joined([each.index.places.offset for each in contents], np.int64),
        _joined([each.index.places.size for each in contents], np.int64),
        _joined([each.crc for each in contents], np.uint32),
    ]
    arrays = [pa.array(column) for column in columns]
    hashes = [each.sha256 for each in contents if each.sha256 is not None]
    if hashes:
        arrays.append(pa.array([digest for each in hashes for digest in each], type=pa.binary(32)))
    values = pa.StructArray.from_arrays(arrays, fields=[*(HASHED_MEMBER if hashes else MEMBER)])
    return Members(pa.LargeListArray.from_arrays(pa.array(np.concatenate(starts)), values), extensions)


def _joined(columns: list[NDArray[Number]], kind: type[Number]) -> NDArray[Number]:
    return np.concatenate([np.zeros(0, dtype=kind), *columns])
