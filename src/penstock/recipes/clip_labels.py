"""What belongs to a clip beside its sound: its text, its tokens, and fields of its .json. Knows no audio."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from penstock.media.errors import BadMedia
from penstock.media.span import MappedSpan, read_all
from penstock.runtime.jsontext import load_json
from penstock.text.texts import load_tokenizer

TEXT_FILE = "txt"
FIELDS_FILE = "json"


@dataclass(slots=True)
class LabelWork:
    """Labels of a batch while it is made.

    Attributes:
        texts: Text of each clip.
        values: Values of the .json fields, by name of the field.
    """

    texts: list[str]
    values: dict[str, list[Any]]


class ClipLabels:
    """Makes ``text``, ``tokens`` [B, n], ``token_lengths`` [B], and one list per field of the .json.

    Args:
        text: Whether clips have a text: ``ID.txt``, or ``text_field``.
        text_field: Field of ``ID.json`` that holds the text, instead of ``ID.txt``.
        fields: Other fields of ``ID.json`` to return, by name. A clip without one has None there.
        tokenizer: Tokenizer of transformers, or the folder or name of one.
    """

    def __init__(
        self,
        *,
        text: bool = False,
        text_field: str | None = None,
        fields: Sequence[str] = (),
        tokenizer: Any = None,
    ) -> None:
        self._text = text or text_field is not None
        self._text_field = text_field
        self._fields = tuple(fields)
        self._given = tokenizer

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_tokenizer"}

    @property
    def text_file(self) -> str | None:
        """Extension of the file that holds the text, if any."""
        if not self._text:
            return None
        return TEXT_FILE if self._text_field is None else FIELDS_FILE

    @property
    def needs(self) -> tuple[str, ...]:
        """Extensions of the files to read."""
        own = [self.text_file, FIELDS_FILE if self._fields else None]
        return tuple(dict.fromkeys(each for each in own if each is not None))

    def start(self, size: int) -> LabelWork:
        return LabelWork([""] * size, {name: [None] * size for name in self._fields})

    def read(self, work: LabelWork, row: int, record: Mapping[str, MappedSpan]) -> None:
        """Read the labels of a clip.

        Raises:
            BadMedia: If it has no text, or files that can't be read.
        """
        known = _fields_of(record) if FIELDS_FILE in self.needs else {}
        for name, values in work.values.items():
            values[row] = known.get(name)
        if self._text:
            work.texts[row] = _text_of(record) if self._text_field is None else _text_in(known, self._text_field)

    def finish(self, work: LabelWork) -> dict[str, Any]:
        found: dict[str, Any] = dict(work.values)
        if self._text:
            found["text"] = work.texts
            if self._given is not None:
                found |= self._tokens(work.texts)
        return found

    def _tokens(self, texts: list[str]) -> dict[str, Any]:
        # A row without a clip has no text, and gets no special tokens either.
        encoded = [self._tokenizer(text)["input_ids"] if text else [] for text in texts]
        lengths = np.array([len(each) for each in encoded], dtype=np.int64)
        tokens = np.full((len(texts), lengths.max(initial=0)), self._tokenizer.pad_token_id or 0, dtype=np.int64)
        for row, own in zip(tokens, encoded, strict=True):
            row[: len(own)] = own
        return {"tokens": tokens, "token_lengths": lengths}

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer("speech.tokenizer", self._given) if isinstance(self._given, str) else self._given


def _text_of(record: Mapping[str, MappedSpan]) -> str:
    if TEXT_FILE not in record:
        raise BadMedia(f"has {', '.join(record)}, and no .{TEXT_FILE} with its text")
    try:
        return _required(read_all(record[TEXT_FILE]).decode("utf-8-sig"), f"its .{TEXT_FILE}")
    except UnicodeDecodeError as error:
        raise BadMedia(f"its .{TEXT_FILE} is not UTF-8: {error.reason} at byte {error.start}") from None


def _text_in(fields: Mapping[str, Any], name: str) -> str:
    text = fields.get(name)
    if not isinstance(text, str):
        raise BadMedia(f"its .{FIELDS_FILE} has no text {name!r}; it has {', '.join(fields) or 'no fields'}")
    return _required(text, f"{name!r} of its .{FIELDS_FILE}")


def _required(text: str, where: str) -> str:
    if not text.strip():
        raise BadMedia(f"the text in {where} is empty")
    return text.strip()


def _fields_of(record: Mapping[str, MappedSpan]) -> Mapping[str, Any]:
    if FIELDS_FILE not in record:
        raise BadMedia(f"has {', '.join(record)}, and no .{FIELDS_FILE}")
    try:
        value = load_json(read_all(record[FIELDS_FILE]))
    except ValueError as error:
        raise BadMedia(f"its .{FIELDS_FILE} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadMedia(f"its .{FIELDS_FILE} holds no fields")
    return value
