"""Loose sound files -> an indexed manifest. Knows nothing of where their texts come from."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np

from penstock.manifest.errors import Problems
from penstock.readers.errors import ContentError
from penstock.readers.tar.explain import MAX_SECONDS
from penstock.readers.tar.index import ReadShard, TarIndexing
from penstock.readers.tar.itemrows import loose_items
from penstock.readers.tar.keptshards import contents_bytes
from penstock.readers.tar.layout import Member, Shard
from penstock.readers.tar.samples import TarSample
from penstock.readers.tar.shardindex import TarIndex
from penstock.readers.tar.shardreader import SPAN, ShardContents, checksums, sound_seconds
from penstock.readers.tar.writer import ItemTable
from penstock.readers.window import Window
from penstock.store.blob import Store
from penstock.store.local import stamp
from penstock.store.remote.remote import ObjectInfo

BATCH_FILES = 128  # that a task reads


class LooseIndexing(TarIndexing):
    """An index of loose files in the making; see ``TarIndexing``. A task is the paths of some files, one per line.

    Args:
        store: Store of the files.
        rows: Items.
        known: Sizes and versions of the files, by path.
        out: Output folder.
        name: Name of the rows, for messages.
        sha256: Whether to record the SHA-256 of every file.
    """

    def __init__(
        self,
        store: Store,
        rows: ItemTable,
        known: Mapping[str, ObjectInfo],
        out: str | Path,
        *,
        name: str = "",
        sha256: bool = False,
    ) -> None:
        files = [Shard(path, info.size, info.etag) for path, info in sorted(known.items())]
        by_path = {file.path: file for file in files}
        self._items = replace(rows, shards=[by_path.get(shard.path, shard) for shard in rows.shards])
        tasks = [files[first : first + BATCH_FILES] for first in range(0, len(files), BATCH_FILES)]
        self._listed = {
            "\n".join(file.path for file in task): _version(file.version or "" for file in task) for task in tasks
        }
        super().__init__(store, self._listed, out, name=name, sha256=sha256, versions=self._listed)
        self.make = FileRead(store, sha256)

    def _rows_of(self, contents: list[ShardContents], problems: Problems) -> ItemTable:
        for each in contents:
            if each.shard.version != self._listed[each.shard.path] and not problems:
                first = each.shard.path.partition("\n")[0]
                problems.add("changed", first, "this file, or one of those after it, was changed just now; index again")
        return loose_items(self._items, contents, problems)


@dataclass(frozen=True)
class FileRead:
    """Reads some files from end to end, in any process: the work of a task."""

    store: Store
    sha256: bool

    def __call__(self, task: str) -> ReadShard:
        samples: list[TarSample] = []
        seconds: list[float] = []
        versions: list[str] = []
        problems: list[ContentError] = []
        digests: list[bytes] = []
        for path in task.split("\n"):
            try:
                blob = self.store.open(path)
                try:
                    window = Window(blob, SPAN)
                    crc, digest = checksums(window, 0, blob.size, sha256=self.sha256)
                    member = Member(PurePosixPath(path).suffix[1:].lower(), 0, blob.size, crc)
                    length = sound_seconds({member.ext: member}, window) or 0.0
                    versions.append(stamp(blob))
                finally:
                    blob.close()
            except (OSError, EOFError) as error:
                problems.append(ContentError(path, None, str(error)))
                continue
            if not member.size or length > MAX_SECONDS:
                problems.append(ContentError(path, None, f"is {length:g} s long" if member.size else "is empty"))
                continue
            samples.append(TarSample(path, (member,)))
            seconds.append(length)
            digests += [digest] if digest is not None else []
        members = [sample.members[0] for sample in samples]
        size = sum(member.size for member in members)
        contents = ShardContents(
            Shard(task, size, _version(versions)),
            TarIndex.of(samples, task),
            np.array([member.crc for member in members], dtype=np.uint32),
            [""] * len(samples),
            seconds,
            problems,
            digests if self.sha256 else None,
        )
        assert contents.shard.version is not None
        return ReadShard(contents.shard.version, size, contents_bytes(contents))


def _version(versions: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(versions).encode()).hexdigest()
