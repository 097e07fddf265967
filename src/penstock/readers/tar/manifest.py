"""A compiled manifest of tar shards: memory-mapped columns that all processes share. Knows nothing of their bytes."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.manifest.errors import ManifestError
from penstock.manifest.idhash import hash_id
from penstock.manifest.manifest import Manifest
from penstock.manifest.sealed import SealedFolder
from penstock.plan.draws import ranges
from penstock.readers.tar.columns import ManifestColumns, MemberColumns
from penstock.readers.tar.layout import VERSION, Member, Shard

KEPT_SHARDS = 4_096  # as Python objects, in an LRU cache


class TarManifest(Manifest):
    """The samples of tar shards, or loose files: a group is a shard or a piece of one, or some files of a folder.

    Args:
        path: Folder of the compiled manifest.

    Attributes:
        path: Folder of the compiled manifest.
        extensions: Extensions of all files of all items.
        indexed: Whether offsets, sizes and checksums of members are known.
        store: URL of the store whose shards have these sizes and versions; empty for a local folder or a filelist.

    Raises:
        ManifestError: If the manifest is missing, damaged, or of another release. Columns of items are checked when
            they are used: methods that return them raise this, too.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        folder = SealedFolder(self.path, VERSION)
        facts = folder.facts
        self.extensions: tuple[str, ...] = tuple(facts["extensions"])
        self.indexed: bool = facts["indexed"]
        self.store: str = facts["store"]
        self._columns = ManifestColumns.open(folder, self.indexed)
        sources = facts["sources"]
        bounds = np.searchsorted(self._columns.source, np.arange(len(sources) + 1))
        super().__init__(
            [source["name"] for source in sources],
            [self._columns.count[first:after] for first, after in pairwise(bounds)],
            fingerprints=[source["fingerprint"] for source in sources],
            amounts={"hours": [source["microseconds"] for source in sources]},
        )
        if all("durations" in source for source in sources):  # not in an index of an earlier release
            self.length_digests = tuple(source["durations"] for source in sources)

    def __reduce__(self) -> tuple[object, ...]:
        # Another process maps the same files instead of receiving a copy.
        return TarManifest, (self.path,)

    def group_name(self, source: int, group: int) -> str:
        return self.shard_of_group(source, group).path

    def ids(self, rows: ArrayLike) -> list[str]:
        """Return the ids of items."""
        rows = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        columns = self._columns
        columns.used.use(rows)
        starts = columns.id_starts[rows].tolist()
        ends = columns.id_starts[rows + 1].tolist()
        data = columns.id_data.data
        return [str(data[start:end], "utf-8") for start, end in zip(starts, ends, strict=True)]

    def fields(self, rows: ArrayLike) -> list[bytes] | None:
        """Return the JSON object of each item that takes the place of its .json; None if the manifest has none."""
        if self._columns.fields is None:
            return None
        rows = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        self._columns.used.use(rows)
        starts, data = self._columns.fields
        bounds = zip(starts[rows].tolist(), starts[rows + 1].tolist(), strict=True)
        return [data[start:end].tobytes() for start, end in bounds]

    def seconds(self, rows: ArrayLike) -> NDArray[np.float32]:
        """Return the durations of items; 0 if unknown."""
        rows = np.asarray(rows, dtype=np.int64)
        self._columns.used_seconds.use(rows)
        seconds: NDArray[np.float32] = self._columns.seconds[rows]
        return seconds

    def shard_of(self, rows: ArrayLike) -> NDArray[np.int32]:
        """Return the number of the shard, or of the loose file, of each item."""
        rows = np.asarray(rows, dtype=np.int64)
        if self._columns.file is None:
            return self._group_shard(rows)
        self._columns.used.use(rows)
        files: NDArray[np.int32] = self._columns.file[rows]
        return files

    def _group_shard(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        return self._columns.shard[self._group_starts.searchsorted(rows, side="right") - 1]

    def shard_of_group(self, source: int, group: int) -> Shard:
        """Return the shard of a group, or the folder of its loose files."""
        return self.shard(int(self._columns.shard[self._group_number(source, group)]))

    def shared_shards(self, source: int, group: int) -> list[Shard]:
        """Return the objects that several items of a group need: its shard, or recordings with segments."""
        if self._columns.file is None:
            return [self.shard_of_group(source, group)]
        return [self.shard(number) for number in self._shared_files(self._group_number(source, group))]

    def _group_number(self, source: int, group: int) -> int:
        """Return the number of a group in groups.arrow."""
        return int(self._source_starts[source] + group)

    @cached_property
    def _shared_files(self) -> Callable[[int], list[int]]:
        def find(number: int) -> list[int]:
            assert self._columns.file is not None
            rows = np.arange(*self._group_starts[number : number + 2])
            self._columns.used.use(rows)
            files, uses = np.unique(self._columns.file[rows], return_counts=True)
            shared: list[int] = files[uses > 1].tolist()
            return shared

        return lru_cache(KEPT_SHARDS)(find)

    @property
    def shard_count(self) -> int:
        return int(self._columns.shards.num_rows)

    def shard(self, number: int) -> Shard:
        return self._shard(int(number))

    def all_shards(self) -> list[Shard]:
        """Return all shards, or loose files and their folders, sorted by path."""
        return list(map(Shard, *(column.to_pylist() for column in self._columns.shards.columns)))

    @cached_property
    def _shard(self) -> Callable[[int], Shard]:
        columns = self._columns.shards.columns
        return lru_cache(KEPT_SHARDS)(lambda number: Shard(*(column[number].as_py() for column in columns)))

    def shard_paths(self) -> list[str]:
        """Return the paths of all shards, sorted."""
        paths: list[str] = self._columns.shards.column("path").to_pylist()
        return paths

    def members(self, rows: ArrayLike, files: Collection[str] | None = None) -> list[tuple[Member, ...]]:
        """Return the files of each item.

        Args:
            rows: Rows of items.
            files: Extensions to include; None for all.

        Raises:
            ManifestError: If the manifest is not indexed.
        """
        starts, codes, offsets, sizes, crcs = self._member_views
        rows = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        self._columns.used.use(rows)
        extensions = self.extensions
        found = []
        for row in rows.tolist():
            members = []
            for at in range(starts[row], starts[row + 1]):
                extension = extensions[codes[at]]
                if files is None or extension in files:
                    members.append(Member(extension, offsets[at], sizes[at], crcs[at]))
            found.append(tuple(members))
        return found

    @property
    def hashed(self) -> bool:
        """Whether the SHA-256 of members is known."""
        members = self._columns.members
        return members is not None and members.sha256 is not None

    def contents(self, rows: ArrayLike, *, sha256: bool) -> list[str]:
        """Return extension and checksum of all files of each item, such as ``wav:1c291ca3,txt:8f2b0a11``.

        Args:
            rows: Rows of items.
            sha256: Whether to return SHA-256 instead of CRC-32.

        Raises:
            ManifestError: If the manifest is not indexed.
        """
        columns = self._member_columns()
        rows = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        self._columns.used.use(rows)
        counts = columns.starts[rows + 1] - columns.starts[rows]
        at = np.repeat(columns.starts[rows], counts) + ranges(counts)
        if sha256:
            assert columns.sha256 is not None
            checksums = columns.sha256[at]
        else:
            checksums = columns.crc[at].astype(">u4").view(np.uint8)
        data = checksums.tobytes().hex()
        digits = len(data) // max(1, len(at))
        names = [f"{extension}:" for extension in self.extensions]
        files = [names[code] + data[n * digits : (n + 1) * digits] for n, code in enumerate(columns.ext[at].tolist())]
        ends = np.cumsum(counts).tolist()
        return [",".join(files[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]

    @cached_property
    def _member_views(self) -> tuple[memoryview, ...]:
        """The columns as memoryviews, for single members: reading one element of an array is three times slower."""
        columns = self._member_columns()
        names = ("starts", "ext", "offset", "size", "crc")
        return tuple(memoryview(getattr(columns, name)) for name in names)

    def extents(self, rows: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the files of each item begin and end in its shard.

        Raises:
            ManifestError: If the manifest is not indexed.
        """
        columns = self._member_columns()
        rows = np.asarray(rows, dtype=np.int64)
        self._columns.used.use(rows)
        first = columns.starts[rows]
        last = columns.starts[rows + 1] - 1
        return columns.offset[first], columns.offset[last] + columns.size[last]

    def _member_columns(self) -> MemberColumns:
        if self._columns.members is None:
            raise ManifestError(f"{self.path}: made from a filelist, so it does not know where members lie")
        return self._columns.members

    def find(self, item: str) -> list[int]:
        """Return the rows of the items with a name.

        Args:
            item: Id, or ``shard:id``. Both may contain colons.
        """
        found = self._rows_with_id(item)
        splits = [place for place, letter in enumerate(item) if letter == ":"]
        for place in splits:
            rows = self._rows_with_id(item[place + 1 :])
            paths = [self.shard(number).path for number in self._group_shard(np.array(rows, dtype=np.int64))]
            found += [row for row, path in zip(rows, paths, strict=True) if path == item[:place]]
        return sorted(set(found))

    def _rows_with_id(self, item: str) -> list[int]:
        target = int(hash_id(item))
        places = range(len(self._columns.hash))
        begin = bisect_left(places, target, key=self._hash)
        end = bisect_right(places, target, lo=begin, key=self._hash)
        self._columns.check_hashes(begin, end)
        rows = self._columns.hashed_row[begin:end]
        return [int(row) for row, name in zip(rows, self.ids(rows), strict=True) if name == item]

    def _hash(self, place: int) -> int:
        self._columns.check_hashes(place, place + 1)
        return int(self._columns.hash[place])
