"""Chosen rows of measured shards -> the columns of a filelist and an indexed manifest. One numbering for all shards."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.curate.speech.measured import Measured
from penstock.readers.tar.layout import MEMBER, Shard
from penstock.readers.tar.shardindex import MAX_EXTENSIONS
from penstock.readers.tar.writer import ItemTable, Members
from penstock.runtime.atomicwrite import write_atomically

_EMPTY = pa.array([], type=pa.large_list(MEMBER))


class Chosen:
    """Collects rows shard by shard, in the order that the filelist will have."""

    def __init__(self) -> None:
        self._shards: list[Shard] = []
        self._counts: list[int] = []
        self._ids: list[pa.Array] = [pa.array([], type=pa.large_string())]
        self._seconds: list[NDArray[np.float64]] = [np.zeros(0)]
        self._sources: list[NDArray[np.int32]] = [np.zeros(0, dtype=np.int32)]
        self._members: list[pa.Array] = [_EMPTY]
        self._names: dict[str, int] = {}
        self._extensions: dict[str, int] = {}

    def add(self, measured: Measured, rows: NDArray[np.int64]) -> None:
        if not len(rows):
            return
        clips = measured.clips.take(pa.array(rows))
        self._shards.append(measured.shard)
        self._counts.append(len(rows))
        self._ids.append(clips.column("id"))
        # Rounded to microseconds, as in the filelist, so that both add up to the same hours.
        self._seconds.append(np.round(clips.column("seconds").to_numpy(), 6))
        self._sources.append(_codes(clips.column("language"), self._names).astype(np.int32))
        self._members.append(self._numbered(clips.column("members")))

    def items(self) -> ItemTable:
        if len(self._extensions) > MAX_EXTENSIONS:
            raise ValueError(
                f"the clips have {len(self._extensions):,} different file extensions; the maximum is {MAX_EXTENSIONS:,}"
            )
        return ItemTable(
            pa.concat_arrays(self._ids),
            np.concatenate(self._seconds),
            np.repeat(np.arange(len(self._shards), dtype=np.int32), self._counts),
            np.concatenate(self._sources),
            self._shards,
            list(self._names),
            Members(pa.concat_arrays(self._members), list(self._extensions)),
        )

    def _numbered(self, members: pa.LargeListArray) -> pa.Array:
        values = members.flatten()
        columns: list[Any] = [_codes(values.field("ext"), self._extensions).astype(np.uint16)]
        columns += [values.field(name).to_numpy() for name in ("offset", "size", "crc")]
        struct = pa.StructArray.from_arrays([pa.array(column) for column in columns], fields=[*MEMBER])
        starts = np.cumsum(np.r_[0, members.value_lengths().to_numpy()], dtype=np.int64)
        return pa.LargeListArray.from_arrays(pa.array(starts), struct)


def write_tsv(items: ItemTable, path: Path) -> None:
    """Write a filelist (shard, id, language, seconds), atomically."""
    columns = (items.shard.tolist(), items.ids.to_pylist(), items.source.tolist(), items.seconds.tolist())
    lines = (
        f"{items.shards[shard].path}\t{item}\t{items.sources[source]}\t{seconds!r}\n".encode()
        for shard, item, source, seconds in zip(*columns, strict=True)
    )
    write_atomically(path, lines)


def _codes(names: pa.LargeStringArray, numbers: dict[str, int]) -> NDArray[np.int64]:
    """The number of every name; new names are added to ``numbers``."""
    encoded = names.dictionary_encode()
    codes = [numbers.setdefault(name, len(numbers)) for name in encoded.dictionary.to_pylist()]
    of_row: NDArray[np.int64] = np.array(codes, dtype=np.int64)[encoded.indices.to_numpy()]
    return of_row
