"""A conversation as text, with the parts that are trained. Knows no template and no tokenizer."""

from dataclasses import dataclass
from typing import NamedTuple


class TextSpan(NamedTuple):
    """Characters start … end - 1 are trained, their loss multiplied by ``weight``."""

    start: int
    end: int
    weight: float = 1.0


class Medium(NamedTuple):
    """Characters, or tokens, start … end - 1 stand for one medium. A cut never goes through them."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rendered:
    """A conversation as text.

    Attributes:
        text: the text, with its special tokens.
        spans: what is trained, in order, without overlaps.
        media: where media stand in the text, in order, if the template knows it.
        bos: whether a tokenizer that begins its texts with a BOS token still has to add it. False for the text of a
            chat template, which is complete.
        document: whether this is a text without turns, which begins with the BOS token of the tokenizer and ends with
            its EOS token, if there are any.
        losses: what a model can't learn from the text, although the record has it: short phrases that are counted.
    """

    text: str
    spans: tuple[TextSpan, ...]
    media: tuple[Medium, ...] = ()
    bos: bool = True
    document: bool = False
    losses: tuple[str, ...] = ()


def whole(text: str, parts: tuple[TextSpan, ...]) -> tuple[TextSpan, ...]:
    """Return spans that cover all of a text, with the weights of some parts and weight 1 elsewhere."""
    spans = []
    at = 0
    for part in sorted(parts):
        spans.append(TextSpan(at, part.start))
        spans.append(part)
        at = part.end
    spans.append(TextSpan(at, len(text)))
    return tuple(span for span in spans if span.start < span.end and span.weight)
