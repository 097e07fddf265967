"""Candidates from WebDataset tar shards, local or remote. Every shard is read once, for its names and .json.

What was found in a shard is kept in a folder: a build that was stopped, or has another seed, reads no shard twice.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from penstock.curate.speech.evaluation.candidates import (
    Candidate,
    StoredClip,
    transcription_in_fields,
    transcription_in_text,
)
from penstock.curate.speech.shardresults import ShardProgress, ShardResult, make_missing
from penstock.manifest.errors import Problems
from penstock.media.audio.clip import EXTENSIONS
from penstock.readers.errors import ContentError
from penstock.readers.metadatacache import MetadataCache, ObjectVersion
from penstock.readers.tar.archive import walk
from penstock.readers.tar.layout import Member
from penstock.readers.tar.samples import TarSample, group, is_text
from penstock.readers.tar.shardreader import SPAN
from penstock.readers.window import Window
from penstock.runtime.engines.engine import ALL, Engine, JobShare
from penstock.runtime.jsontext import load_json
from penstock.store.blob import Blob, Store
from penstock.store.local import stamp

FORMAT = 1  # version of what is kept of shards: with another number every shard is read again


class ShardClip(NamedTuple):
    """A clip in a shard.

    Attributes:
        name: Name of the sample.
        language: Language in its .json, else the folder of the shard.
        audio: Audio file.
        text: Text file; None if there is none.
        transcription: Transcription in its .json; None if there is none.
    """

    name: str
    language: str
    audio: Member
    text: Member | None
    transcription: str | None


@dataclass(frozen=True)
class ListShard:
    """Lists the clips of a shard, in any process: the work of a task."""

    store: Store

    def __call__(self, path: str) -> ShardResult:
        with closing(self.store.open(path)) as blob:
            clips = list(_clips_in(blob, path))
            return ShardResult(stamp(blob), blob.size, json.dumps(clips).encode())


def _clips_in(blob: Blob, path: str) -> Iterator[ShardClip]:
    window = Window(blob, SPAN)
    for sample in group(walk(window, path)):
        members = {member.ext: member for member in sample.members}
        audio = next((members[ext] for ext in EXTENSIONS if ext in members), None)
        if audio is None or not is_text(sample.key):
            continue
        fields = _fields(window, members, path, sample)
        language = str(fields.get("language") or PurePosixPath(path).parent.name or "default")
        yield ShardClip(sample.key, language, audio, members.get("txt"), transcription_in_fields(fields))


def _fields(window: Window, members: Mapping[str, Member], path: str, sample: TarSample) -> dict[str, Any]:
    if "json" not in members:
        return {}
    try:
        value = load_json(window.peek(members["json"].offset, members["json"].size))
    except ValueError as error:
        raise ContentError(path, sample.key, f".json: {error}") from error
    return value if isinstance(value, dict) else {}


class ListedShards:
    """The clips of shards, in a folder. Several processes and machines may write into it at once.

    Args:
        folder: Folder, made when the first shard is kept.
        store: Store of the shards.
    """

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder = folder
        self._metadata = MetadataCache(folder, f"evaluation clips {FORMAT}")
        self._store = store

    @property
    def is_empty(self) -> bool:
        return self._metadata.is_empty

    def find(self, shard: str, blob: Blob) -> str | None:
        """Return the version of an open shard; None if its clips are not in the folder, or damaged."""
        version = stamp(blob)
        kept = self._metadata.get(ObjectVersion(self._store.identity, shard, version))
        return None if kept is None else version

    def keep(self, shard: str, version: str, content: bytes) -> None:
        """Keep what ``ListShard`` has found."""
        self._metadata.put_unlocked(ObjectVersion(self._store.identity, shard, version), content)

    def load(self, shard: str, version: str) -> list[ShardClip]:
        """Return the clips of a version of a shard.

        Raises:
            FileNotFoundError: If they are not in the folder, or damaged.
        """
        kept = self._metadata.get(ObjectVersion(self._store.identity, shard, version))
        if kept is None:
            raise FileNotFoundError(f"{self._folder}: the clips of {shard} are missing; run the command again")
        return [_shard_clip(*each) for each in json.loads(bytes(kept))]

    def make(
        self,
        paths: Collection[str],
        engine: Engine,
        *,
        share: JobShare = ALL,
        progress: ShardProgress | None = None,
    ) -> dict[str, str]:
        """List the clips of all shards that are not in the folder; return the versions of shards by path.

        Args:
            paths: Paths of the shards.
            engine: Engine that lists.
            share: Share of one of several jobs.
            progress: Function to call after each shard.

        Raises:
            ManifestError: If shards are damaged or cannot be read; the message names all of them.
        """
        problems = Problems(self._store.url)
        own = share.of(sorted(set(paths)))
        versions = make_missing(self._store, own, self, ListShard(self._store), engine, progress, problems)
        if problems:
            raise problems.error()
        return versions


def _shard_clip(
    name: str, language: str, audio: list[Any], text: list[Any] | None, transcription: str | None
) -> ShardClip:
    return ShardClip(name, language, Member(*audio), None if text is None else Member(*text), transcription)


def shard_candidates(
    store: Store,
    paths: Collection[str],
    folder: Path,
    engine: Engine,
    language: str | None = None,
    *,
    progress: ShardProgress | None = None,
) -> Iterator[Candidate]:
    """List the samples with audio of all shards.

    Args:
        store: Store of the shards.
        paths: Paths of the shards.
        folder: Folder in which what is found in shards is kept.
        engine: Engine that reads the shards.
        language: Language of all samples; by default that of the sample's .json, else the name of the shard's folder.
        progress: Function to call after each shard.

    Raises:
        ManifestError: If shards are damaged or cannot be read; the message names all of them.
    """
    listed = ListedShards(folder, store)
    reader = _ShardClipReader(store)
    for path, version in listed.make(paths, engine, progress=progress).items():
        for clip in listed.load(path, version):
            yield Candidate(path, clip.name, language or clip.language, clip.audio.size, reader, (path, clip))


@dataclass(frozen=True, slots=True, eq=False)
class _ShardClipReader:
    store: Store

    def __call__(self, place: tuple[str, ShardClip]) -> StoredClip:
        path, clip = place
        with closing(self.store.open(path)) as blob:
            said = clip.transcription
            if said is None and clip.text is not None:
                said = transcription_in_text(_bytes(blob, clip.text))
            return StoredClip(_bytes(blob, clip.audio), said)


def _bytes(blob: Blob, member: Member) -> bytes:
    data = bytearray(member.size)
    blob.readinto(memoryview(data), member.offset)
    return bytes(data)
