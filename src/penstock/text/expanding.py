"""Replaces the placeholders of media in a text by all of their tokens. Knows no medium."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from penstock.text.errors import Rejected
from penstock.text.rendered import Medium, Rendered, TextSpan


def expanded(
    rendered: Rendered, placeholders: Mapping[str, str], replacements: Mapping[str, Sequence[str]]
) -> Rendered:
    """Return a text with its placeholders replaced. Tokens of media are never trained.

    Args:
        rendered: Text with one placeholder per medium.
        placeholders: Placeholder of each kind, such as ``{"image": "<|image_pad|>"}``.
        replacements: Replacements by kind, in the order of the text.

    Raises:
        Rejected: If the numbers of placeholders and media differ.
    """
    places = _places(rendered.text, placeholders)
    for kind in {*placeholders, *replacements}:
        found = sum(place.kind == kind for place in places)
        given = len(replacements.get(kind, ()))
        if found != given:
            raise Rejected(f"the template wrote {found} placeholders for {given} media of kind {kind}")
    if not places:
        return rendered
    rest = {kind: iter(texts) for kind, texts in replacements.items()}
    pieces: list[str] = []
    media: list[Medium] = []
    moved: list[tuple[int, int]] = []  # characters of the text before, and by how much what follows them moves
    at = 0
    length = 0
    for kind, start, end in places:
        replacement = next(rest[kind])
        pieces += (rendered.text[at:start], replacement)
        length += start - at
        media.append(Medium(kind, length, length + len(replacement)))
        length += len(replacement)
        moved.append((end, length - end))
        at = end
    pieces.append(rendered.text[at:])
    spans = tuple(_moved(rendered.spans, places, moved))
    return replace(rendered, text="".join(pieces), spans=spans, media=tuple(media))


def _places(text: str, placeholders: Mapping[str, str]) -> list[Medium]:
    groups = (f"(?P<{kind}>{re.escape(token)})" for kind, token in placeholders.items())
    return [Medium(found.lastgroup or "", *found.span()) for found in re.finditer("|".join(groups), text)]


def _moved(spans: Sequence[TextSpan], places: Sequence[Medium], moved: Sequence[tuple[int, int]]) -> Iterator[TextSpan]:
    """Yield spans at their places in the expanded text, without the placeholders in them."""
    for start, end, weight in spans:
        inside = [place for place in places if start <= place.start and place.end <= end]
        edges = [start, *(edge for place in inside for edge in (place.start, place.end)), end]
        for first, after in zip(edges[::2], edges[1::2], strict=True):
            if first < after:
                shift = max((by for by in moved if by[0] <= first), default=(0, 0))[1]
                yield TextSpan(first + shift, after + shift, weight)
