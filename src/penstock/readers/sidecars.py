"""Texts and fields in small files beside a recording, ``ID.txt`` and ``ID.json``. Knows no recording and no shard."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from penstock.manifest.errors import ManifestError
from penstock.runtime.jsontext import load_json

TEXT_FILE = "txt"
FIELDS_FILE = "json"


class TextPlace(NamedTuple):
    """Where recordings have their text.

    Attributes:
        field: Field of ``ID.json``; None for ``ID.txt``.
    """

    field: str | None = None

    @property
    def file(self) -> str:
        """Extension of the file with the text."""
        return TEXT_FILE if self.field is None else FIELDS_FILE

    def read(self, files: Mapping[str, Callable[[], bytes]]) -> str:
        """Return the text of a recording.

        Args:
            files: Functions that read the files of the recording, by extension.

        Raises:
            ValueError: If it has none; the message says why.
        """
        if self.file not in files:
            raise ValueError(f"has {', '.join(files)}, and no .{self.file} with its text")
        data = files[self.file]()
        return file_text(data) if self.field is None else field_text(json_fields(data), self.field)


def file_text(data: bytes) -> str:
    """Return the text of an ``ID.txt``.

    Raises:
        ValueError: If it is empty or not UTF-8.
    """
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"its .{TEXT_FILE} is not UTF-8: {error.reason} at byte {error.start}") from None
    if not text:
        raise ValueError(f"the text in its .{TEXT_FILE} is empty")
    return text


def json_fields(data: bytes) -> dict[str, Any]:
    """Return the fields of an ``ID.json``.

    Raises:
        ValueError: If it is not a JSON object.
    """
    try:
        value = load_json(data)
    except ValueError as error:
        raise ValueError(f"its .{FIELDS_FILE} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"its .{FIELDS_FILE} holds no fields")
    return value


def field_text(fields: Mapping[str, Any], name: str) -> str:
    """Return a field that is a text.

    Raises:
        ValueError: If it is missing, empty or not a text.
    """
    text = fields.get(name)
    if not isinstance(text, str):
        raise ValueError(f"its .{FIELDS_FILE} has no text {name!r}; it has {', '.join(fields) or 'no fields'}")
    if not text.strip():
        raise ValueError(f"the text in {name!r} of its .{FIELDS_FILE} is empty")
    return text.strip()


def no_texts(name: str, clips: int) -> ManifestError:
    """Return the error of an index in which no clip has a text."""
    return ManifestError(
        f"{name}: none of its {clips:,} clips has a text; --text takes it from ID.txt, --text-field NAME from that "
        "field of ID.json or of the manifest"
    )
