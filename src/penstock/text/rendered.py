"""A conversation as text, with the parts that are trained. Knows no template and no tokenizer."""

from dataclasses import dataclass
from typing import NamedTuple


class TextSpan(NamedTuple):
    """Characters start … end - 1, trained with their loss multiplied by ``weight``."""

    start: int
    end: int
    weight: float = 1.0


class Medium(NamedTuple):
    """Characters or tokens start … end - 1, which stand for one medium. They are never cut apart."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rendered:
    """A conversation as text.

    Attributes:
        text: Text with its special tokens.
        spans: Trained characters, in order, without overlaps.
        media: Places of media in the text, in order, if the template knows them.
        bos: Whether the tokenizer's BOS token still has to be added. False for the text of a chat template, which is
            complete.
        document: Whether the text has no turns. It then begins with the tokenizer's BOS token and ends with its EOS
            token, if there are any.
        losses: Short phrases for what the record has and a model can't learn from the text; the index counts them.
    """

    text: str
    spans: tuple[TextSpan, ...]
    media: tuple[Medium, ...] = ()
    bos: bool = True
    document: bool = False
    losses: tuple[str, ...] = ()


def whole(text: str, parts: tuple[TextSpan, ...]) -> tuple[TextSpan, ...]:
    """Return spans that cover a whole text, with the weights of the given parts and weight 1 elsewhere."""
    spans = []
    at = 0
    for part in sorted(parts):
        spans.append(TextSpan(at, part.start))
        spans.append(part)
        at = part.end
    spans.append(TextSpan(at, len(text)))
    return tuple(span for span in spans if span.start < span.end and span.weight)
