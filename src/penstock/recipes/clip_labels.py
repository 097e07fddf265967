"""What belongs to a clip beside its sound: its text, its tokens, and fields of its .json. Knows no audio."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.media.errors import BadMedia
from penstock.media.span import MappedSpan, read_all
from penstock.readers.sidecars import FIELDS_FILE, TextPlace, json_fields
from penstock.recipes.extras import require_packages
from penstock.text.texts import load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


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
        tokenizer: "PreTrainedTokenizerBase | str | None" = None,
    ) -> None:
        self._place = TextPlace(text_field) if text or text_field is not None else None
        self._fields = tuple(fields)
        self._given = tokenizer

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_tokenizer"}

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields of the .json."""
        return self._fields

    @property
    def needs(self) -> tuple[str, ...]:
        """Extensions of the files to read."""
        own = [self._place.file] if self._place is not None else []
        return tuple(dict.fromkeys([*own, *([FIELDS_FILE] if self._fields else [])]))

    def start(self, size: int) -> LabelWork:
        return LabelWork([""] * size, {name: [None] * size for name in self._fields})

    def read(self, work: LabelWork, row: int, record: Mapping[str, MappedSpan]) -> None:
        """Read the labels of a clip.

        Raises:
            BadMedia: If it has no text, or files that can't be read.
        """
        files = {extension: partial(read_all, file) for extension, file in record.items()}
        try:
            if self._place is not None:
                work.texts[row] = self._place.read(files)
            if self._fields:
                known = json_fields(files[FIELDS_FILE]()) if FIELDS_FILE in files else {}
                for name, values in work.values.items():
                    values[row] = known.get(name)
        except ValueError as error:
            raise BadMedia(str(error)) from None

    def finish(self, work: LabelWork) -> dict[str, Any]:
        found: dict[str, Any] = dict(work.values)
        if self._place is not None:
            found["text"] = work.texts
            if self._given is not None:
                found |= self._tokens(work.texts)
        return found

    def _tokens(self, texts: list[str]) -> dict[str, Any]:
        # A row without a clip has no text, and gets no special tokens either.
        encoded = [self._tokenizer(text)["input_ids"] if text else [] for text in texts]
        lengths = np.array([len(each) for each in encoded], dtype=np.int64)
        width = lengths.max(initial=1)  # a batch of padding alone still goes through a model
        tokens = np.full((len(texts), width), self._tokenizer.pad_token_id or 0, dtype=np.int64)
        for row, own in zip(tokens, encoded, strict=True):
            row[: len(own)] = own
        return {"tokens": tokens, "token_lengths": lengths}

    @cached_property
    def _tokenizer(self) -> "PreTrainedTokenizerBase":
        assert self._given is not None
        if not isinstance(self._given, str):
            return self._given
        require_packages("speech.tokenizer", "chat", "transformers")
        return load_tokenizer("speech.tokenizer", self._given)
