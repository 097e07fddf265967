"""Candidates from any kind of source, and which of them are chosen: only by name, never by content.

Every candidate is ranked by the hash of (seed, language, source, name). The lowest are chosen. So a choice of 100 is
the first 100 of a choice of 500, and a new clip in a source displaces at most one.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FORMAT = "penstock-evaluation/1"
_NOT_IN_A_KEY = re.compile(r"[^\w-]+")
TRANSCRIPTION_FIELDS = ("transcription", "text", "sentence", "transcript")  # FLEURS; LibriSpeech; Common Voice; others


@dataclass(frozen=True, slots=True)
class StoredClip:
    """An audio file's bytes as they are stored, and its transcription, if known."""

    audio: bytes
    transcription: str | None


ClipReader = Callable[[Any], StoredClip]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A clip that may be chosen. ``source`` and ``name`` identify it.

    Attributes:
        source: Name of the corpus. No absolute path, so that a copy of the data elsewhere gives the same choice.
        name: Name of the clip in its source.
        language: Language of the clip.
        size: Size of the audio file in bytes, by which a replaced file is noticed without reading it.
        reader: Function that fetches clips; one for all clips of a store. It is called for chosen clips only, also in
            other processes, and pickles.
        place: Argument of ``reader`` for this clip, which pickles.
    """

    source: str
    name: str
    language: str
    size: int
    reader: ClipReader
    place: Any

    def read(self) -> StoredClip:
        return self.reader(self.place)


def rank(candidates: Iterable[Candidate], seed: int) -> dict[str, list[Candidate]]:
    """Return the candidates of each language in the order of choice; languages sorted by name.

    Raises:
        ValueError: If a clip is listed twice, or a language cannot be part of a file name.
    """
    languages: dict[str, dict[tuple[str, str], Candidate]] = {}
    for candidate in candidates:
        if _NOT_IN_A_KEY.search(candidate.language) or not candidate.language:
            raise ValueError(
                f"{candidate.source}: {candidate.name}: the language {candidate.language!r} becomes a file name; "
                "use only letters, digits, _ and -"
            )
        known = languages.setdefault(candidate.language, {})
        if (candidate.source, candidate.name) in known:
            raise ValueError(f"{candidate.source}: {candidate.name} is listed twice; is a source named twice?")
        known[candidate.source, candidate.name] = candidate
    return {
        language: sorted(languages[language].values(), key=lambda candidate: _rank_key(candidate, seed))
        for language in sorted(languages)
    }


def sample_ids(candidates: Sequence[Candidate]) -> list[str]:
    """Return the ids of one language's candidates: names made safe for a tar, with a hash where names collide."""
    plain = [_NOT_IN_A_KEY.sub("_", candidate.name) for candidate in candidates]
    counts = Counter(plain)
    return [
        f"{name}-{_digest(candidate.source, candidate.name)[:12]}" if counts[name] > 1 else name
        for name, candidate in zip(plain, candidates, strict=True)
    ]


def request_of(candidates: Sequence[Candidate], ids: Sequence[str], count: int) -> str:
    """Return a fingerprint of a language's inputs. An archive with the same fingerprint is not made again."""
    held = [(name, c.source, c.name, c.size) for name, c in zip(ids, candidates, strict=True)]
    return hashlib.sha256(json.dumps([FORMAT, count, held]).encode()).hexdigest()


def _rank_key(candidate: Candidate, seed: int) -> str:
    return _digest(str(seed), candidate.language, candidate.source, candidate.name)


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def transcription_in_fields(fields: Mapping[str, object]) -> str | None:
    """Return the first of the known fields that is a text, or None."""
    for name in TRANSCRIPTION_FIELDS:
        found = fields.get(name)
        if isinstance(found, str):
            return found
    return None


def transcription_in_text(data: bytes) -> str:
    """Return the contents of a .txt next to the audio."""
    return data.decode("utf-8-sig", "replace").strip()
