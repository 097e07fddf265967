"""One tar shard, read from end to end: places, sizes and checksums of members, sources and durations of samples.

Knows nothing of other shards.
"""

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.readers.errors import ContentError
from penstock.readers.mp3frames import mp3_seconds
from penstock.readers.sidecars import FIELDS_FILE, TextPlace, json_fields
from penstock.readers.tar.archive import TarEntry, walk
from penstock.readers.tar.explain import MAX_SECONDS
from penstock.readers.tar.facts import HEAD_BYTES, TAIL_BYTES, flac_seconds, ogg_seconds, parse_json, wav_seconds
from penstock.readers.tar.layout import Member, Shard
from penstock.readers.tar.samples import TarSample, group, is_text, split_at_last_dot, split_name
from penstock.readers.tar.segments import SEGMENTS, recorded_segments
from penstock.readers.tar.shardindex import TarIndex
from penstock.readers.window import Window
from penstock.store.blob import Store
from penstock.store.local import stamp

SPAN = 8 << 20
_OGG = ("ogg", "opus")
SOUNDS = ("wav", "flac", "mp3", *_OGG)
"""Extensions of sound files."""


@dataclass(frozen=True)
class ShardContents:
    """What a shard holds: checksums per member, source and seconds per sample, in the order of ``index``."""

    shard: Shard
    index: TarIndex
    crc: NDArray[np.uint32]
    sources: list[str]
    seconds: list[float]
    problems: list[ContentError]
    sha256: list[bytes] | None = None
    without_text: int = 0
    """Number of samples that were left out, as they have no text."""
    fields: list[str] | None = None
    """JSON object of every sample, in place of its .json; None if its .json is used."""


class HowToRead(NamedTuple):
    """What is read of shards.

    Attributes:
        described: Whether sources and seconds are known already, and need not be read.
        sha256: Whether to compute the SHA-256 of every member.
        text: Where samples have their text; those without one are left out. None to keep all.
        segments: Whether segments that a .json lists are samples of their own.
        dotted: Whether keys may contain dots: the extension of a name begins at its last dot.
    """

    described: bool = False
    sha256: bool = False
    text: TextPlace | None = None
    segments: bool = False
    dotted: bool = False


class SampleFacts(NamedTuple):
    """What is known of a sample beside the places of its files.

    Attributes:
        source: Name of its source.
        seconds: Duration; 0 if unknown.
        fields: JSON object in place of its .json; None if its .json is used.
    """

    source: str
    seconds: float
    fields: str | None = None


def read_shard(store: Store, path: str, how: HowToRead) -> ShardContents:
    """Read a shard. The result lists problems of single samples.

    Args:
        store: Store of the shard.
        path: Path of the shard.
        how: What is read of it.

    Raises:
        ContentError: If the archive is damaged.
    """
    blob = store.open(path)
    try:
        window = Window(blob, SPAN)
        samples: list[TarSample] = []
        facts: list[SampleFacts] = []
        problems: list[ContentError] = []
        hashes: dict[int, bytes] | None = {} if how.sha256 else None  # by offset
        without_text = 0
        for whole in group(_checked(window, path, hashes), split_at_last_dot if how.dotted else split_name):
            try:
                found = list(_items(whole, path, window, how))
            except ContentError as error:
                problems.append(error)
                continue
            for item in found:
                if item is None:
                    without_text += 1
                else:
                    samples.append(item[0])
                    facts += [item[1]] if item[1] is not None else []
        index = TarIndex.of(samples, path)
        members = [member for sample in samples if is_text(sample.key) for member in sample.members]
        crc = np.array([member.crc for member in members], dtype=np.uint32)
        digests = None if hashes is None else [hashes[member.offset] for member in members]
        sources = [known.source for known in facts]
        seconds = [known.seconds for known in facts]
        fields = [known.fields or "{}" for known in facts] if how.segments else None
        shard = Shard(path, blob.size, stamp(blob))
        return ShardContents(shard, index, crc, sources, seconds, problems, digests, without_text, fields)
    finally:
        blob.close()


def _checked(window: Window, path: str, hashes: dict[int, bytes] | None) -> Iterator[TarEntry]:
    for entry in walk(window, path):
        crc, digest = checksums(window, entry.offset, entry.size, sha256=hashes is not None)
        if hashes is not None and digest is not None:
            hashes[entry.offset] = digest
        yield replace(entry, crc=crc)


def checksums(window: Window, offset: int, size: int, *, sha256: bool) -> tuple[int, bytes | None]:
    """Return CRC-32 and SHA-256 of some bytes; None for the second if it is not asked for."""
    crc = 0
    digest = hashlib.sha256() if sha256 else None
    for piece in window.pieces(offset, size):
        crc = zlib.crc32(piece, crc)
        if digest is not None:
            digest.update(piece)
    return crc, None if digest is None else digest.digest()


def _items(
    sample: TarSample, path: str, window: Window, how: HowToRead
) -> Iterator[tuple[TarSample, SampleFacts | None] | None]:
    """Yield the sample and its facts, or its segments, which have all of its files but the .json; None without a text.

    Raises:
        ContentError: If the sample can't be used.
    """
    files = {member.ext: partial(window.peek, member.offset, member.size) for member in sample.members}
    document = _document(sample, path, files) if how.segments else {}
    if SEGMENTS in document:
        yield from _segments(sample, document, path, window, how.text)
    elif how.text is not None and not _has_text(how.text, files):
        yield None
    elif how.described:
        yield sample, None
    else:
        facts = _facts(sample, path, window)
        yield sample, facts._replace(fields=json.dumps(document)) if how.segments else facts


def _document(sample: TarSample, path: str, files: Mapping[str, Callable[[], bytes]]) -> dict[str, Any]:
    try:
        return json_fields(files[FIELDS_FILE]()) if FIELDS_FILE in files else {}
    except ValueError as error:
        raise ContentError(path, sample.key, str(error)) from error


def _segments(
    sample: TarSample, document: Mapping[str, Any], path: str, window: Window, text: TextPlace | None
) -> Iterator[tuple[TarSample, SampleFacts] | None]:
    facts = _facts(sample, path, window)
    # The header of the sound, not the .json, says where a segment ends at the latest.
    seconds = sound_seconds({member.ext: member for member in sample.members}, window)
    members = tuple(member for member in sample.members if member.ext != FIELDS_FILE)
    try:
        for own in recorded_segments(document, seconds):
            fields = json.dumps(own.fields)
            if text is not None and not _has_text(text, {FIELDS_FILE: fields.encode}):
                yield None
            else:
                yield TarSample(f"{sample.key}#{own.number}", members), SampleFacts(facts.source, own.seconds, fields)
    except ValueError as error:
        raise ContentError(path, sample.key, str(error)) from error


def _has_text(text: TextPlace, files: Mapping[str, Callable[[], bytes]]) -> bool:
    try:
        text.read(files)
    except ValueError:
        return False
    return True


def _facts(sample: TarSample, path: str, window: Window) -> SampleFacts:
    """Return source and seconds: from the sample's .json, else from the shard's folder and the sound's header."""
    if not is_text(sample.key):
        raise ContentError(path, ascii(sample.key), "its name is not UTF-8")
    members = {member.ext: member for member in sample.members}
    language: str | None = None
    seconds: float | None = None
    if "json" in members:
        try:
            language, seconds = parse_json(window.peek(members["json"].offset, members["json"].size))
        except ValueError as error:
            raise ContentError(path, sample.key, f".json: {error}") from error
    if seconds is None:
        seconds = sound_seconds(members, window)
    if seconds is not None and not 0 <= seconds <= MAX_SECONDS:
        raise ContentError(path, sample.key, f"a duration of {seconds} seconds")
    return SampleFacts(language or PurePosixPath(path).parent.name or "default", seconds or 0.0)


def sound_seconds(members: Mapping[str, Member], window: Window) -> float | None:
    """Return the duration of the first file of a sample whose header gives it."""
    for extension, member in members.items():
        if extension not in SOUNDS:
            continue
        head = window.peek(member.offset, min(member.size, HEAD_BYTES))
        if extension == "mp3":
            seconds = mp3_seconds(window.peek(member.offset, member.size))
        elif extension in _OGG:
            length = min(member.size, TAIL_BYTES)
            seconds = ogg_seconds(head, window.peek(member.offset + member.size - length, length))
        else:
            seconds = flac_seconds(head) if extension == "flac" else wav_seconds(head, member.size)
        if seconds is not None:
            return seconds
    return None
