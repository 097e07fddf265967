"""Candidates from WebDataset tar shards, local or remote. Every shard is read once, for its names and .json."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from penstock.curate.speech.evaluation.candidates import (
    Candidate,
    StoredClip,
    transcription_in_fields,
    transcription_in_text,
)
from penstock.media.audio.clip import EXTENSIONS
from penstock.readers.errors import ContentError
from penstock.readers.tar.archive import walk
from penstock.readers.tar.layout import Member
from penstock.readers.tar.samples import TarSample, group, is_text
from penstock.readers.tar.shardreader import SPAN
from penstock.readers.window import Window
from penstock.runtime.jsontext import load_json
from penstock.store.blob import Blob, Store


def shard_candidates(store: Store, paths: Sequence[str], language: str | None = None) -> Iterator[Candidate]:
    """List the samples with audio of all shards.

    Args:
        store: Store of the shards.
        paths: Paths of the shards.
        language: Language of all samples; by default that of the sample's .json, else the name of the shard's folder.
    """
    for path in sorted(paths):
        blob = store.open(path)
        try:
            window = Window(blob, SPAN)
            for sample in group(walk(window, path)):
                members = {member.ext: member for member in sample.members}
                audio = next((members[ext] for ext in EXTENSIONS if ext in members), None)
                if audio is None or not is_text(sample.key):
                    continue
                fields = _fields(window, members, path, sample)
                own = language or str(fields.get("language") or PurePosixPath(path).parent.name or "default")
                read = _ShardClipReader(store, path, audio, members.get("txt"), transcription_in_fields(fields))
                yield Candidate(path, sample.key, own, audio.size, read)
        finally:
            blob.close()


def _fields(window: Window, members: Mapping[str, Member], path: str, sample: TarSample) -> dict[str, Any]:
    if "json" not in members:
        return {}
    try:
        value = load_json(window.peek(members["json"].offset, members["json"].size))
    except ValueError as error:
        raise ContentError(path, sample.key, f".json: {error}") from error
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class _ShardClipReader:
    store: Store
    path: str
    audio: Member
    text: Member | None
    transcription: str | None

    def __call__(self) -> StoredClip:
        blob = self.store.open(self.path)
        try:
            said = self.transcription
            if said is None and self.text is not None:
                said = transcription_in_text(_bytes(blob, self.text))
            return StoredClip(_bytes(blob, self.audio), said)
        finally:
            blob.close()


def _bytes(blob: Blob, member: Member) -> bytes:
    data = bytearray(member.size)
    blob.readinto(memoryview(data), member.offset)
    return bytes(data)
