"""The transcription of a clip, from the fields and files that corpora use for it. Pure."""

from collections.abc import Mapping
from typing import Any

FIELDS = ("transcription", "text", "sentence", "transcript")  # FLEURS; LibriSpeech; Common Voice; others


def from_fields(fields: Mapping[str, Any]) -> str | None:
    """Return the first of the known fields that is a text, or None."""
    return next((fields[name] for name in FIELDS if isinstance(fields.get(name), str)), None)


def from_text(data: bytes) -> str:
    """Return the contents of a .txt next to the audio."""
    return data.decode("utf-8-sig", "replace").strip()
