"""Rows in any order -> a compiled manifest: sorted, cut into groups, fingerprinted, and written atomically."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.manifest.errors import ManifestError
from penstock.manifest.idhash import hash_ids, string_buffers
from penstock.manifest.manifest import fingerprint
from penstock.manifest.publish import publish
from penstock.manifest.sealed import DESCRIPTION, seal
from penstock.readers.tar import layout

"""Called with the name of the current task, how much of it is done, and how much there is in total."""


@dataclass(frozen=True)
class Members:
    """The files of every item: lists of ``MEMBER`` or ``HASHED_MEMBER``; ``ext`` is an index into ``extensions``."""

    column: pa.LargeListArray
    extensions: Sequence[str]


@dataclass(frozen=True)
class ItemTable:
    """The rows of a manifest, one per item; ``shard`` and ``source`` are indices into ``shards`` and ``sources``."""

    ids: pa.LargeStringArray
    seconds: NDArray[np.float64]
    shard: NDArray[np.int32]
    source: NDArray[np.int32]
    shards: Sequence[layout.Shard]
    sources: Sequence[str]
    members: Members | None = None
    store: str = ""
    """URL of the store whose shards have these sizes and versions; empty for a local folder."""
    keys: pa.LargeStringArray | None = None
    """Keys of the samples in their shards, if they are not the ids. Not written."""
    without_folders: bool = False
    """Whether keys are names without the folder in the shard. Not written."""
    fields: pa.LargeBinaryArray | None = None
    """JSON object of every item, in place of its .json."""
    file: NDArray[np.int32] | None = None
    """Loose file of every item, an index into ``shards``; ``shard`` is then the folder of the files."""

    def take(self, rows: NDArray[np.int64]) -> "ItemTable":
        """Return some of the rows."""
        taken = pa.array(rows)
        return replace(
            self,
            ids=self.ids.take(taken),
            seconds=self.seconds[rows],
            shard=self.shard[rows],
            source=self.source[rows],
            members=self.members and Members(self.members.column.take(taken), self.members.extensions),
            keys=None if self.keys is None else self.keys.take(taken),
            fields=None if self.fields is None else self.fields.take(taken),
            file=None if self.file is None else self.file[rows],
        )


@dataclass(frozen=True)
class ShardGroups:
    """Consecutive groups of rows, ``count`` items each."""

    source: NDArray[np.int32]
    shard: NDArray[np.int32]
    count: NDArray[np.int32]


def write_manifest(items: ItemTable, out: Path) -> None:
    """Write ``items`` to the folder ``out``, replacing a manifest that is there.

    Raises:
        ManifestError: If ``out`` exists and is not a manifest, or there are no items.
    """
    if out.exists() and not (out / DESCRIPTION).exists():
        raise ManifestError(f"{out}: exists and is not a compiled manifest; remove it or name another folder")
    if not len(items.ids):
        raise ManifestError(f"{out}: no samples were found, so there is nothing to write")
    publish(out, lambda folder: write_files(items, folder))


def microseconds(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return durations as whole microseconds."""
    return np.rint(seconds * 1e6).astype(np.int64)


def write_files(items: ItemTable, folder: Path) -> None:
    """Write the files of a manifest into an empty folder."""
    items = _sorted(items)
    groups = _cut(items.source, items.shard, layout.MAX_GROUP if items.file is None else layout.MAX_LOOSE_GROUP)
    shards = [(shard.path, shard.size, shard.version) for shard in items.shards]
    _write_batch(folder / "shards.arrow", layout.SHARDS, list(zip(*shards, strict=True)))
    _write_batch(folder / "groups.arrow", layout.GROUPS, [groups.source, groups.shard, groups.count])
    columns: list[Any] = [items.ids, items.seconds.astype(np.float32)]
    more: dict[str, Any] = {"members": items.members and items.members.column, "fields": items.fields}
    more["file"] = None if items.file is None else pa.array(items.file)
    known = {name: column for name, column in more.items() if column is not None}
    schema = pa.schema([*layout.ITEMS, *(pa.field(name, column.type) for name, column in known.items())])
    _write_batch(folder / "items.arrow", schema, [*columns, *known.values()])
    hashes = hash_ids(items.ids)
    order = np.argsort(hashes, kind="stable")
    _write_batch(folder / "ids.arrow", layout.IDS, [hashes[order], order])
    seal(folder, _facts(items, groups))


def _sorted(items: ItemTable) -> ItemTable:
    """Sort sources by name, shards by path, and rows by (source, shard), stably. Unused names are dropped."""
    source, sources = _ranked(items.source, list(items.sources))
    used = items.shard if items.file is None else np.concatenate([items.shard, items.file])
    codes, paths = _ranked(used, [shard.path for shard in items.shards])
    shard = codes[: len(source)]
    by_path = {shard.path: shard for shard in items.shards}
    shards = [by_path[path] for path in paths]
    file = None if items.file is None else codes[len(source) :]
    items = replace(items, shard=shard, source=source, shards=shards, sources=sources, file=file)
    key = source.astype(np.int64) * len(shards) + shard
    if bool(np.all(key[:-1] <= key[1:])):
        return items
    return items.take(np.argsort(key, kind="stable"))


def _ranked(codes: NDArray[np.int32], names: list[str]) -> tuple[NDArray[np.int32], list[str]]:
    used = np.flatnonzero(np.bincount(codes, minlength=len(names)))
    kept = sorted({names[code] for code in used})
    rank = {name: place for place, name in enumerate(kept)}
    places = np.array([rank.get(name, -1) for name in names], dtype=np.int32)
    return places[codes], kept


def _cut(source: NDArray[np.int32], shard: NDArray[np.int32], most: int) -> ShardGroups:
    """Return runs of equal (source, shard). One above ``most`` items is cut into the fewest pieces, of even size."""
    starts = np.flatnonzero(np.r_[True, (source[1:] != source[:-1]) | (shard[1:] != shard[:-1])])
    counts = np.diff(np.r_[starts, len(source)])
    pieces = -(-counts // most)
    run = np.repeat(np.arange(len(starts)), pieces)
    piece = np.arange(len(run)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    begin = piece * counts[run] // pieces[run]
    end = (piece + 1) * counts[run] // pieces[run]
    first = starts[run] + begin
    return ShardGroups(source[first], shard[first], (end - begin).astype(np.int32))


def _facts(items: ItemTable, groups: ShardGroups) -> dict[str, object]:
    ends = np.cumsum(np.bincount(items.source, minlength=len(items.sources))).tolist()
    rows = [slice(first, end) for first, end in zip([0, *ends], ends, strict=False)]
    return {
        "version": layout.VERSION,
        "sources": [
            {
                "name": name,
                "fingerprint": _fingerprint(items, groups, source, here),
                "microseconds": int(microseconds(items.seconds[here]).sum()),
                "durations": fingerprint(items.seconds[here].astype("<f4")),
            }
            for source, (name, here) in enumerate(zip(items.sources, rows, strict=True))
        ],
        "extensions": list(items.members.extensions) if items.members else [],
        "indexed": items.members is not None,
        "store": items.store,
    }


def _fingerprint(items: ItemTable, groups: ShardGroups, source: int, rows: slice) -> str:
    """Return the fingerprint of a source, of its shard paths, counts and ids in order; not of byte offsets."""
    here = groups.source == source
    paths = [items.shards[shard].path for shard in groups.shard[here].tolist()]
    offsets, data = string_buffers(items.ids)
    bounds = offsets[rows.start : rows.stop + 1]
    return fingerprint(paths, groups.count[here].tolist(), np.diff(bounds).astype("<i8"), data[bounds[0] : bounds[-1]])


def _write_batch(path: Path, schema: pa.Schema, columns: Sequence[Any]) -> None:
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, type=field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(batch)
