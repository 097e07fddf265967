"""Texts -> token ids and labels, many texts per call of a fast tokenizer. Knows spans; knows no template and no batch.

Labels are not shifted: the label of a token is its own id, or -100 where it is not trained. Models shift: the label of
token n is compared with what is predicted at token n - 1. So the first token of a sample never has a label.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from penstock.config.errors import ConfigError
from penstock.text.errors import Rejected
from penstock.text.rendered import Medium, Rendered, TextSpan
from penstock.text.tokenizing import Tokenized, Tokenizing

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
TooLong = Literal["cut", "drop"]
NO_LABEL = -100


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A sample as tokens.

    Attributes:
        input_ids: Token ids.
        labels: Token id where a token is trained, else -100.
        loss_weights: Loss weight of each token, 0 without a label; None if it is 1 for every label.
        media: Token ranges of media, in order.
        cut_media: Media that were cut off with the end of the sample: always its last ones.
    """

    input_ids: Ints
    labels: Ints
    loss_weights: Floats | None = None
    media: tuple[Medium, ...] = ()
    cut_media: tuple[Medium, ...] = ()

    def __len__(self) -> int:
        return len(self.input_ids)


class Encoder:
    """Makes tokens and labels. Several threads may use it at the same time.

    A token is trained if it begins inside a span. A token that begins before the span and reaches into it is not.

    The tokenizer adds its BOS token, and whatever else it adds, only to texts that still need it (``Rendered.bos``) and
    do not begin with it. What it adds at the end is trained if the end of the text is. A document
    (``Rendered.document``) gets BOS and EOS also from a tokenizer that adds none by itself.

    Args:
        tokenizer: Fast tokenizer of transformers. It is copied: padding or truncation set on the original changes
            nothing here.
        max_length: Maximum number of tokens per sample.
        too_long: Whether a longer sample is cut to ``max_length`` or rejected. A cut never goes through the tokens of a
            medium: it goes before them.
        placeholders: Kind of medium by placeholder token id. A run of equal ids is one medium. Placeholders are never
            trained. Not needed where ``Rendered.media`` says where media stand.
        owned: Whether the tokenizer is used by nobody else, and need not be copied.

    Raises:
        ConfigError: If the tokenizer is not a fast one.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerFast",
        *,
        max_length: int,
        too_long: TooLong = "cut",
        placeholders: Mapping[int, str] | None = None,
        owned: bool = False,
    ) -> None:
        require_fast(tokenizer)
        backend = tokenizer.backend_tokenizer if owned else copy.deepcopy(tokenizer.backend_tokenizer)
        backend.no_padding()
        backend.no_truncation()
        self._tokenizing = Tokenizing(backend)
        self._bos: str | None = tokenizer.bos_token
        around = backend.encode("a", add_special_tokens=True).tokens
        self._own_bos = "" if around[:1] == [self._bos] else self._bos or ""
        self._eos: str = tokenizer.eos_token or ""
        self._adds_eos = around[-1:] == [self._eos]
        self._max_length = max_length
        self._too_long = too_long
        self._placeholders = dict(placeholders or {})

    def encode(self, rendered: Sequence[Rendered]) -> list[Encoded | Rejected]:
        """Return the tokens of each text, or why it cannot be used.

        Pass many texts per call: the tokenizer works on them with threads of its own.
        """
        rendered = [self._framed(each) if each.document else each for each in rendered]
        made: list[Encoded | Rejected] = [Rejected("not valid Unicode")] * len(rendered)
        for adds in (False, True):
            some = [n for n, each in enumerate(rendered) if self._adds(each) == adds and _is_unicode(each.text)]
            texts = [rendered[n].text for n in some]
            borders = [_borders(rendered[n]) for n in some]
            for n, tokens in zip(some, self._tokenizing.tokenize(texts, borders, complete=not adds), strict=True):
                made[n] = self._encoded(rendered[n], tokens)
        return made

    def _framed(self, rendered: Rendered) -> Rendered:
        """Return a document between BOS and EOS, without those that the tokenizer will add by itself."""
        bos = "" if rendered.text.startswith(self._own_bos) else self._own_bos
        text = f"{bos}{rendered.text.removesuffix(self._eos)}"
        if not (self._adds_eos and self._adds(replace(rendered, text=text))):
            text += self._eos
        spans = [
            TextSpan(start + len(bos), len(text) if end == len(rendered.text) else end + len(bos), weight)
            for start, end, weight in rendered.spans
        ]
        media = [Medium(kind, start + len(bos), end + len(bos)) for kind, start, end in rendered.media]
        return replace(rendered, text=text, spans=tuple(spans), media=tuple(media))

    def _adds(self, rendered: Rendered) -> bool:
        return rendered.bos and not (self._bos and rendered.text.startswith(self._bos))

    def _encoded(self, rendered: Rendered, tokens: Tokenized) -> Encoded | Rejected:
        ids = tokens.ids
        if len(ids) > self._max_length and self._too_long == "drop":
            return Rejected(f"more than {self._max_length} tokens")
        media = self._media(rendered, tokens)
        length = _cut(len(ids), self._max_length, media)
        if not self._placeholders and all(span.weight == 1.0 for span in rendered.spans):
            weights = None
            labels = np.full(length, NO_LABEL)
            for start, end, _ in rendered.spans:
                trained = slice(max(1, tokens.first_from(start)), tokens.first_from(end))
                labels[trained] = ids[:length][trained]
        else:
            weights = self._weights(rendered, tokens, length)
            labels = np.where(weights > 0.0, ids[:length], NO_LABEL)
        if not (labels != NO_LABEL).any():
            within = f" in the first {length} tokens" if length < len(ids) else ""
            return Rejected(f"nothing to train on{within}")
        return Encoded(
            ids[:length],
            labels,
            None if all(span.weight == 1.0 for span in rendered.spans) else weights,
            tuple(medium for medium in media if medium.end <= length),
            tuple(medium for medium in media if medium.end > length),
        )

    def _weights(self, rendered: Rendered, tokens: Tokenized, length: int) -> Floats:
        """Return the loss weight of each token."""
        weights = np.zeros(length, dtype=np.float32)
        for start, end, weight in rendered.spans:
            weights[tokens.first_from(start) : tokens.first_from(end)] = weight
        if self._placeholders:
            weights[np.isin(tokens.ids[:length], list(self._placeholders))] = 0.0
        weights[:1] = 0.0
        return weights

    def _media(self, rendered: Rendered, tokens: Tokenized) -> list[Medium]:
        if rendered.media:
            return [
                Medium(kind, tokens.first_from(start), tokens.first_from(end)) for kind, start, end in rendered.media
            ]
        if not self._placeholders:
            return []
        held = np.where(np.isin(tokens.ids, list(self._placeholders)), tokens.ids, -1)
        edges = np.flatnonzero(np.diff(held, prepend=-1, append=-1))
        runs = zip(edges.tolist(), edges[1:].tolist(), strict=False)
        return [Medium(self._placeholders[int(held[start])], start, end) for start, end in runs if held[start] >= 0]


def require_fast(tokenizer: object) -> None:
    """Check that a tokenizer reports the characters of its tokens.

    Raises:
        ConfigError: If it is not a fast one.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError(
            f"labels need a fast tokenizer of transformers, which {type(tokenizer).__name__} is not: load one with "
            "AutoTokenizer.from_pretrained, from a folder with a tokenizer.json"
        )


def pad_id_of(tokenizer: "PreTrainedTokenizerFast") -> int:
    """Return the id of a tokenizer's padding token, or of its end token: padding never has a label, so that is safe.

    Raises:
        ConfigError: If it has neither.
    """
    for token_id in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if token_id is not None:
            return int(token_id)
    raise ConfigError("the tokenizer has neither a padding token nor an end token: set tokenizer.pad_token")


def _borders(rendered: Rendered) -> set[int]:
    """Return the characters at which spans and media begin and end."""
    found = {at for start, end, _ in rendered.spans for at in (start, end)}
    return found | {at for _, start, end in rendered.media for at in (start, end)}


def _cut(length: int, max_length: int, media: Sequence[Medium]) -> int:
    if length <= max_length:
        return length
    return min((medium.start for medium in media if medium.start < max_length < medium.end), default=max_length)


def _is_unicode(text: str) -> bool:
    """Return whether a text can be encoded. JSON may hold half of a surrogate pair, which cannot."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
