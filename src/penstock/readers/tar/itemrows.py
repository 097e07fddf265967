"""Contents of shards -> the rows of a manifest. Knows no file."""

from collections import Counter
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.manifest.errors import Problems
from penstock.readers.errors import ContentError
from penstock.readers.tar.layout import HASHED_MEMBER, MEMBER
from penstock.readers.tar.shardindex import MAX_EXTENSIONS
from penstock.readers.tar.shardreader import ShardContents
from penstock.readers.tar.writer import ItemTable, Members

Number = TypeVar("Number", bound=np.generic)


def all_items(contents: list[ShardContents], problems: Problems) -> ItemTable:
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
        fields=_fields(contents),
    )


def _fields(contents: list[ShardContents]) -> pa.LargeBinaryArray | None:
    """Return the fields of every sample; None if their .json is used."""
    if any(each.fields is None for each in contents):
        return None
    own = [text.encode() for each in contents for text in each.fields or ()]
    return pa.array(own, type=pa.large_binary())


def listed_items(rows: ItemTable, contents: list[ShardContents], problems: Problems) -> ItemTable:
    """Return rows, such as those of a filelist, with the places of their members."""
    by_path = {each.shard.path: (number, each) for number, each in enumerate(contents)}
    starts = np.cumsum([0, *(len(each.index.keys) for each in contents)])
    samples = np.zeros(len(rows.ids), dtype=np.int64)
    in_folders: dict[str, dict[str, str]] = {}
    keys = rows.ids if rows.keys is None else rows.keys
    for row, (key, shard) in enumerate(zip(keys.to_pylist(), rows.shard.tolist(), strict=True)):
        path = rows.shards[shard].path
        if path not in by_path:
            continue  # the shard could not be read, which is already reported
        number, each = by_path[path]
        if rows.without_folders and path not in in_folders:
            in_folders[path] = _keys_in_folders(each, problems)
        try:
            samples[row] = starts[number] + each.index.sample(in_folders.get(path, {}).get(key, key))
        except ContentError as error:
            problems.add("sample", error.where, error.reason)
    if problems:
        return rows
    members = _members(contents, problems)
    shards = [by_path[shard.path][1].shard for shard in rows.shards]
    return replace(rows, shards=shards, members=Members(members.column.take(pa.array(samples)), members.extensions))


def _keys_in_folders(contents: ShardContents, problems: Problems) -> dict[str, str]:
    """Return the keys of samples that lie in folders of their shard, by their names without it."""
    keys = contents.index.keys.to_pylist()
    found: dict[str, str] = {}
    for key in keys:
        name = key.rpartition("/")[2]
        if found.setdefault(name, key) != key:
            where = f"{contents.shard.path}:{name}"
            problems.add("duplicate", where, f"is there as {found[name]} and as {key}; rows name it without its folder")
    return {name: key for name, key in found.items() if name != key}


def loose_items(rows: ItemTable, contents: list[ShardContents], problems: Problems) -> ItemTable:
    """Return rows whose files are loose, with their members, and their durations where only the files say them."""
    assert rows.file is not None
    paths = [path for each in contents for path in each.index.keys.to_pylist()]
    place = {path: number for number, path in enumerate(paths)}
    if problems:
        return rows
    samples = np.array([place[rows.shards[file].path] for file in rows.file.tolist()], dtype=np.int64)
    seconds = np.array([length for each in contents for length in each.seconds], dtype=np.float64)[samples]
    members = _members(contents, problems)
    return replace(
        rows,
        seconds=np.where(rows.seconds > 0, rows.seconds, seconds),
        members=Members(members.column.take(pa.array(samples)), members.extensions),
    )


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
