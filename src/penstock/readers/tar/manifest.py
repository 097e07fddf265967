"""A compiled manifest, open: memory-mapped columns that all processes share. Reads what is asked for, nothing else."""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.manifest.errors import ManifestError
from penstock.manifest.idhash import hash_id
from penstock.plan.draws import ranges
from penstock.readers.tar.columns import Columns, MemberColumns
from penstock.readers.tar.layout import VERSION, Member, Shard

KEPT_SHARDS = 4_096  # as Python objects; all are in the map


@dataclass(frozen=True, eq=False)
class Manifest:
    """What exists. A row is an item's number in the whole manifest: its group's first row + its place in the group."""

    path: Path
    fingerprint: str
    sources: tuple[str, ...]
    items: tuple[int, ...]
    """Items a source."""
    microseconds: tuple[int, ...]
    """Exact total duration a source; weights by hours come from it."""
    extensions: tuple[str, ...]
    indexed: bool
    """Whether byte offsets, sizes and checksums of members are known."""
    store: str
    """The URL of the store that the shards' sizes and versions are of; empty for a local folder or a filelist."""
    _columns: Columns = field(repr=False)

    @staticmethod
    def open(path: str | Path) -> "Manifest":
        path = Path(path)
        try:
            facts = json.loads((path / "manifest.json").read_text())
        except FileNotFoundError:
            raise ManifestError(f"{path}: no compiled manifest here (manifest.json is missing)") from None
        except ValueError as error:
            raise ManifestError(f"{path}/manifest.json: not readable: {error}; compile it again") from error
        if facts.get("version") != VERSION:
            found = facts.get("version")
            raise ManifestError(f"{path}: manifest version {found}, this release reads {VERSION}; compile it again")
        sources = facts["sources"]
        return Manifest(
            path,
            facts["fingerprint"],
            tuple(source["name"] for source in sources),
            tuple(source["items"] for source in sources),
            tuple(source["microseconds"] for source in sources),
            tuple(facts["extensions"]),
            facts["indexed"],
            facts.get("store", ""),
            Columns.open(path, len(sources), facts["indexed"]),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process maps the same files instead of getting a copy of them.
        return Manifest.open, (self.path,)

    def __len__(self) -> int:
        return len(self._columns.seconds)

    def group_sizes(self, source: int) -> NDArray[np.int32]:
        starts = self._columns.source_starts
        return self._columns.count[starts[source] : starts[source + 1]]

    def rows(self, source: ArrayLike, group: ArrayLike, item: ArrayLike) -> NDArray[np.int64]:
        """The rows of items, given by source, group within the source and place within the group (broadcast)."""
        number = self._columns.source_starts[np.asarray(source)] + np.asarray(group)
        rows: NDArray[np.int64] = self._columns.first[number] + np.asarray(item)
        return rows

    def locate(self, rows: ArrayLike) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """The inverse of ``rows``: source, group within the source, place within the group."""
        rows = np.asarray(rows, dtype=np.int64)
        number = self._group_of(rows)
        source = self._columns.source[number]
        return source, number - self._columns.source_starts[source], rows - self._columns.first[number]

    def ids(self, rows: ArrayLike) -> list[str]:
        rows, starts, data = (
            np.atleast_1d(np.asarray(rows, dtype=np.int64)),
            self._columns.id_starts,
            self._columns.id_data,
        )
        return [str(data[a:b], "utf-8") for a, b in zip(starts[rows].tolist(), starts[rows + 1].tolist(), strict=True)]

    def seconds(self, rows: ArrayLike) -> NDArray[np.float32]:
        seconds: NDArray[np.float32] = self._columns.seconds[np.asarray(rows)]
        return seconds

    def shard_of(self, rows: ArrayLike) -> NDArray[np.int32]:
        return self._columns.shard[self._group_of(np.asarray(rows, dtype=np.int64))]

    @property
    def shard_count(self) -> int:
        return int(self._columns.shards.num_rows)

    def shard(self, number: int) -> Shard:
        return self._shard(int(number))

    @cached_property
    def _shard(self) -> Callable[[int], Shard]:
        columns = self._columns.shards.columns
        return lru_cache(KEPT_SHARDS)(lambda number: Shard(*(column[number].as_py() for column in columns)))

    def shard_paths(self) -> list[str]:
        paths: list[str] = self._columns.shards.column("path").to_pylist()
        return paths

    def members(self, row: int) -> tuple[Member, ...]:
        """The files of one item; only an indexed manifest knows them."""
        return self.members_of([row])[0]

    def members_of(self, rows: ArrayLike, files: Collection[str] | None = None) -> list[tuple[Member, ...]]:
        """The files of each of the items, all or those with some extensions.

        At once, as many small look-ups in arrays take longer.
        """
        columns, rows = self._member_columns(), np.asarray(rows, dtype=np.int64)
        first = columns.starts[rows]
        counts = columns.starts[rows + 1] - first
        every = np.repeat(first, counts) + ranges(counts)
        if files is not None:
            wanted = np.array([extension in files for extension in self.extensions])[columns.ext[every]]
            counts = np.bincount(np.repeat(np.arange(len(rows)), counts)[wanted], minlength=len(rows))
            every = every[wanted]
        places = (column[every].tolist() for column in (columns.offset, columns.size, columns.crc))
        found = map(Member, map(self.extensions.__getitem__, columns.ext[every].tolist()), *places)
        return [tuple(islice(found, count)) for count in counts.tolist()]

    def extents(self, rows: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the files of each item begin and end in its shard; only an indexed manifest knows it."""
        columns = self._member_columns()
        first, last = columns.starts[np.asarray(rows)], columns.starts[np.asarray(rows) + 1] - 1
        return columns.offset[first], columns.offset[last] + columns.size[last]

    def _member_columns(self) -> MemberColumns:
        if self._columns.members is None:
            raise ManifestError(f"{self.path}: made from a filelist, so it does not know where members lie")
        return self._columns.members

    def find(self, item: str) -> NDArray[np.int64]:
        """Every row whose id is ``item``, or whose shard and id are ``shard:id``; both may contain colons."""
        found = self._rows_with_id(item)
        splits = [place for place, letter in enumerate(item) if letter == ":"]
        for place in splits:
            rows = self._rows_with_id(item[place + 1 :])
            paths = [self.shard(number).path for number in self.shard_of(rows)]
            found += [row for row, path in zip(rows, paths, strict=True) if path == item[:place]]
        return np.array(sorted(set(found)), dtype=np.int64)

    def _rows_with_id(self, item: str) -> list[int]:
        target = hash_id(item)
        begin = np.searchsorted(self._columns.hash, target, side="left")
        end = np.searchsorted(self._columns.hash, target, side="right")
        rows = self._columns.hashed_row[begin:end]
        return [int(row) for row, name in zip(rows, self.ids(rows), strict=True) if name == item]

    def _group_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._columns.first.searchsorted(rows, side="right") - 1
