"""A clip that may be chosen, whatever holds it. Knows no folder, no archive, no dataset."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clip:
    """An audio file's bytes as they are stored, and what is said in it, where that is known."""

    audio: bytes
    transcription: str | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """Attributes:

    source, name: what holds it, and its name there; together they are its identity, and hold no place of a machine,
        so that a copy of the data elsewhere gives the same choice.
    size: bytes of its audio file: how a replaced file is noticed without reading it.
    read: fetches it; called for chosen clips alone.
    """

    source: str
    name: str
    language: str
    size: int
    read: Callable[[], Clip]
