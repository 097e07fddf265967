"""One row of a chat batch as panels of a page: tokens with their labels, where members of a pack begin, the media."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.recipes.chat_media import ChatMedia
from penstock.recipes.chat_preview import (
    MIN_RUN,
    TokenRange,
    audio_rate,
    media_of_row,
    processed_images,
    spectrogram,
    token_ranges,
    visible_pixels,
)
from penstock.recipes.panels import PackPanel, Panel, Picture, PicturePanel, SoundPanel, TextPanel, TextPiece
from penstock.text.labels import NO_LABEL
from penstock.text.mediakinds import PICTURES, SOUNDS, MediaKind

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_MAX_TOKENS = 8_192  # shown of a sample
_REPLACEMENT = "\ufffd"  # what a part of a character is decoded to


def chat_panels(
    batch: Mapping[str, Any],
    index: int,
    tokenizer: "PreTrainedTokenizerFast",
    media: ChatMedia,
    tokens: Mapping[str, str],
) -> Iterator[Panel]:
    """Yield the panels of one row.

    Args:
        batch: Batch of the chat recipe.
        index: Row number.
        tokenizer: Tokenizer that made the tokens.
        media: Object that made the media.
        tokens: Special tokens by name, which tell the member of each medium in a pack; empty with a chat template.
    """
    ranges = list(token_ranges(batch, index))
    is_pack = isinstance(batch["ids"][index], list)
    numbers = _good_members(batch, index) if is_pack else [None] * len(ranges)
    if is_pack:
        members = [number for number in numbers if number is not None]
        length = np.asarray(batch["input_ids"]).size // len(batch["ids"])
        first = index * length
        starts = [each.start - first for each in ranges]
        ends = [each.start - first + len(each.ids) for each in ranges]
        yield PackPanel(members, starts, ends, length, title=f"{ends[-1] if ends else 0:,} of {length:,} tokens")
    else:
        starts = [0] * len(ranges)
    for number, start, each in zip(numbers, starts, ranges, strict=True):
        yield _text_panel(each, number, start, tokenizer)
    marks = {name: tokenizer.convert_tokens_to_ids(token) for name, token in tokens.items()}

    def members_of(kind: MediaKind, count: int) -> list[int | None]:
        """Return the member of each medium, by the order of start tokens; None for each if the counts differ."""
        mark = marks.get(kind.tokens[0]) if kind.in_text else None
        found = [
            number
            for number, each in zip(numbers, ranges, strict=True)
            for _ in range(sum(token == mark for token in each.ids))
        ]
        return found if len(found) == count else [None] * count

    yield from _media_panels(batch, index, media, members_of)


def _good_members(batch: Mapping[str, Any], index: int) -> list[int | None]:
    """Return the numbers of the members of a pack that are not padding."""
    slot = batch["slots"][index] if "slots" in batch else index
    lost = {bad.member for bad in batch["bad"] if bad.slot == slot and bad.member is not None}
    return [number for number in range(len(batch["ids"][index])) if number not in lost]


def _text_panel(tokens: TokenRange, member: int | None, start: int, tokenizer: "PreTrainedTokenizerFast") -> TextPanel:
    count = len(tokens.ids)
    trained = sum(label != NO_LABEL for label in tokens.labels)
    title = f"{count:,} tokens, {trained:,} trained"
    if member is not None:
        title += f", from token {start:,}"
    if count > _MAX_TOKENS:
        title += f"; the first {_MAX_TOKENS:,} are shown"
    return TextPanel(list(token_pieces(tokens, tokenizer)), tokens=True, title=title, member=member)


def token_pieces(tokens: TokenRange, tokenizer: "PreTrainedTokenizerFast") -> Iterator[TextPiece]:
    """Yield the first 8,192 tokens with id and label. Tokens that share a character are one piece.

    So is a run of one token, such as those of an image, unless it indents a text.

    Args:
        tokens: Tokens of a sample.
        tokenizer: Tokenizer that made them.
    """
    count = min(len(tokens.ids), _MAX_TOKENS)
    texts = _token_texts(tokens.ids[:count], tokenizer)
    at = 0
    while at < count:
        end = at + 1
        text = texts[tokens.ids[at]]
        while end < count and text.endswith(_REPLACEMENT) and _REPLACEMENT in texts[tokens.ids[end]]:
            end += 1
            text = str(tokenizer.decode(tokens.ids[at:end]))
        piece = TextPiece(text, _note(tokens, at, end), any(each != NO_LABEL for each in tokens.labels[at:end]))
        repeats = 0 if end > at + 1 or text.isspace() else _repeats(tokens, at, count)
        if repeats >= MIN_RUN:
            piece = piece._replace(text=f"{text}×{repeats}")
            end = at + repeats
        yield piece
        at = end


def _repeats(tokens: TokenRange, at: int, end: int) -> int:
    """Return how often a token is repeated, with the same label."""
    after = at + 1
    while after < end and (tokens.ids[after], tokens.labels[after]) == (tokens.ids[at], tokens.labels[at]):
        after += 1
    return after - at


def _token_texts(ids: list[int], tokenizer: "PreTrainedTokenizerFast") -> dict[int, str]:
    """Return the text of each token, as it is inside a text: some tokenizers drop the space of a first token."""
    distinct = list(dict.fromkeys(ids))
    before = str(tokenizer.decode(distinct[:1]))
    pairs = tokenizer.batch_decode([[distinct[0], each] for each in distinct])
    return {
        each: pair[len(before) :] if pair.startswith(before) else str(tokenizer.decode([each]))
        for each, pair in zip(distinct, pairs, strict=True)
    }


def _note(tokens: TokenRange, at: int, end: int) -> str:
    """Return ids and labels of tokens in words."""
    ids = " ".join(map(str, tokens.ids[at:end]))
    labels = " ".join([str(label) for label in tokens.labels[at:end] if label != NO_LABEL]) or "none"
    weight = "" if tokens.weights is None or not tokens.weights[at] else f", weight {tokens.weights[at]:g}"
    return f"token {ids}, label {labels}{weight}"


def _media_panels(
    batch: Mapping[str, Any], index: int, media: ChatMedia, members_of: Callable[[MediaKind, int], list[int | None]]
) -> Iterator[Panel]:
    for kind in PICTURES:
        values = media_of_row(batch, kind.batch_key, kind.rows_key, index)
        for number, (value, member) in enumerate(zip(values, members_of(kind, len(values)), strict=True)):
            processor = media.load_image_processor()
            frames = [Picture(visible_pixels(each, processor)) for each in value.reshape(-1, *value.shape[-3:])]
            yield PicturePanel(frames, title=f"{kind.stem} {number}", member=member)
    images = [visible_pixels(image, media.load_image_processor()) for image in processed_images(batch, index, media)]
    if images:
        yield PicturePanel([Picture(image) for image in images], title="images")
    for kind in SOUNDS:
        lengths = media_of_row(batch, kind.lengths_key, kind.rows_key, index)
        values = media_of_row(batch, kind.batch_key, kind.rows_key, index)
        for number, (value, member) in enumerate(zip(values, members_of(kind, len(values)), strict=True)):
            title = f"{kind.stem} {number}"
            sound = value[..., : int(lengths[number])]
            if sound.ndim == 1:
                yield SoundPanel(sound, audio_rate(media), title=title, member=member)
            else:
                yield PicturePanel([Picture(spectrogram(sound))], title=title, member=member)
