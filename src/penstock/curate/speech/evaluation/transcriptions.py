"""What is said in a clip, by the fields and files that corpora write it in. Pure."""

from collections.abc import Mapping
from typing import Any

FIELDS = ("transcription", "text", "sentence", "transcript")  # FLEURS; LibriSpeech; Common Voice; others


def from_fields(fields: Mapping[str, Any]) -> str | None:
    """The first of the known fields that holds a text."""
    return next((fields[name] for name in FIELDS if isinstance(fields.get(name), str)), None)


def from_text(data: bytes) -> str:
    """The contents of a .txt beside the audio."""
    return data.decode("utf-8-sig", "replace").strip()
