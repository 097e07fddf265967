"""Candidates from a folder: one subfolder per language with audio files anywhere below; or a single language.

The transcription is in ``clip.txt`` or in a field of ``clip.json`` next to ``clip.wav``, or not known.
"""

from collections.abc import Iterator
from pathlib import Path

from penstock.curate.speech.evaluation.candidates import (
    Candidate,
    StoredClip,
    transcription_in_fields,
    transcription_in_text,
)
from penstock.media.audio.clip import EXTENSIONS
from penstock.runtime.jsontext import load_json


def folder_candidates(root: Path, language: str | None = None) -> Iterator[Candidate]:
    """List all audio files below ``root``.

    Args:
        root: Folder to search.
        language: Language of all files; the name of the subfolder by default.

    Raises:
        ValueError: If a file is not in the folder of a language.
        FileNotFoundError: If there are no audio files.
    """
    found = False
    for path in sorted(root.rglob("*")):
        if path.suffix.lower().removeprefix(".") not in EXTENSIONS or path.name.startswith(".") or not path.is_file():
            continue
        name = path.relative_to(root)
        if language is None and len(name.parts) == 1:
            raise ValueError(f"{path}: not in a language's folder; move it into one, or write LANGUAGE={root}")
        found = True
        size = path.stat().st_size
        yield Candidate(root.absolute().name, name.as_posix(), language or name.parts[0], size, _read, path)
    if not found:
        raise FileNotFoundError(f"{root}: no audio files here ({', '.join(EXTENSIONS)})")


def _read(path: Path) -> StoredClip:
    return StoredClip(path.read_bytes(), _transcription(path.with_suffix(".txt"), path.with_suffix(".json")))


def _transcription(text: Path, fields: Path) -> str | None:
    if text.is_file():
        return transcription_in_text(text.read_bytes())
    if not fields.is_file():
        return None
    try:
        value = load_json(fields.read_bytes())
    except ValueError as error:
        raise ValueError(f"{fields}: not valid JSON: {error}") from None
    return transcription_in_fields(value) if isinstance(value, dict) else None
