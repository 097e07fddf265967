"""A clip that may be chosen, from any kind of source. Knows no folder, no archive, no dataset."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clip:
    """An audio file's bytes as they are stored, and its transcription, if known."""

    audio: bytes
    transcription: str | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A clip that may be chosen. ``source`` and ``name`` identify it.

    Attributes:
        source: what contains the clip. No absolute path, so that a copy of the data elsewhere gives the same choice.
        name: of the clip in its source.
        size: bytes of its audio file, so that a replaced file is noticed without reading it.
        read: fetches the clip; only called for chosen clips.
    """

    source: str
    name: str
    language: str
    size: int
    read: Callable[[], Clip]
