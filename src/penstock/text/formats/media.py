"""Media of a record: the columns that hold them, and their places in a conversation. Never looks into a medium."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.text.errors import Rejected
from penstock.text.formats.columns import Columns
from penstock.text.formats.messages import Content, RecordTurn, TurnMedium
from penstock.text.formats.sample import ContentPart, Kind, Message, Sample

MEDIA: dict[Kind, tuple[str, ...]] = {
    "image": ("images", "image"),
    "video": ("videos", "video"),
    "audio": ("audios", "audio"),
}
"""The columns of media in any conversation. Formats of one kind look into more columns for it."""

IMAGES = (*MEDIA["image"], "image_path", "image_file", "img", "jpg", "jpeg", "png", "webp", "image_url", "url")
VIDEOS = (*MEDIA["video"], "video_path", "mp4", "webm", "avi", "gif", "video_url", "contenturl")
VIDEO_IDS = ("videoid", "video_id", "video_idx", "video_name")
VIDEOS_BY_ID = (*VIDEOS, *VIDEO_IDS)
AUDIOS = (*MEDIA["audio"], "audio_path", "speech", "wav", "flac", "mp3", "ogg", "opus")

ALL_MEDIA = tuple(name for names in MEDIA.values() for name in names)

_SEVERAL = ("images", "videos", "audios", "image")  # a list in another column is one medium: frames, or samples
_TAG = re.compile("<(image|video|audio)>")


def media_in(columns: Columns, names: Iterable[str]) -> list[Any]:
    """Return the media of the first named column that has any.

    A video that is named by an id alone is the file ``<id>.mp4``.
    """
    for name in names:
        value = columns.get(name)
        several = value if name in _SEVERAL and isinstance(value, list | tuple) else [value]
        found = [each for each in several if each is not None and not (isinstance(each, str) and not each)]
        if found:
            return [_named(each, name) for each in found]
    return []


def one_medium(columns: Columns, names: Iterable[str], kind: str) -> Any:
    """Return the first medium of the named columns.

    Args:
        kind: Name of the medium, for the reason.

    Raises:
        Rejected: If there is none.
    """
    found = media_in(columns, names)
    if not found:
        raise Rejected(f"no {kind}")
    return found[0]


def placed(turns: Sequence[RecordTurn], columns: Columns, more: Mapping[Kind, tuple[str, ...]]) -> Sample:
    """Return a sample of the turns, each medium at its tag or part.

    A tag stands for a medium where the record has a column for that kind; else it is text. ``<image>`` stands for a
    video where there is a column for videos only. Media without any tag or part go before the text of the first user
    turn.

    Args:
        turns: Conversation.
        columns: Columns of the record.
        more: Columns by kind, in place of those of ``MEDIA``.

    Raises:
        Rejected: If the numbers of tags or parts and of media differ.
    """
    names = {**MEDIA, **more}
    kinds = [kind for kind in names if kind in more or not columns.keys().isdisjoint(names[kind])]
    if not kinds and all(isinstance(turn.content, str) for turn in turns):
        return {"messages": [_message(turn, turn.content) for turn in turns]}
    tags = {str(kind): kind for kind in kinds}
    if "video" in tags:
        tags.setdefault("image", "video")  # LLaVA-Video's way
    contents = [_split(turn, tags) for turn in turns]
    sample: Sample = {}
    for kind in names:
        media = media_in(columns, names[kind]) if kind in kinds else []
        values = _matched(kind, contents, media, turns)
        if values:
            sample[f"{kind}s"] = values  # type: ignore[literal-required]
    sample["messages"] = [_message(turn, content) for turn, content in zip(turns, contents, strict=True)]
    return sample


def _named(value: Any, column: str) -> Any:
    if column in VIDEO_IDS or (isinstance(value, int) and column in MEDIA["video"]):
        return str(value) if "." in str(value) else f"{value}.mp4"
    return value


def _split(turn: RecordTurn, tags: Mapping[str, Kind]) -> list[str | TurnMedium]:
    """Return the texts and media of a turn, with its tags as media."""
    pieces = turn.content if isinstance(turn.content, list) else [turn.content]
    split: list[str | TurnMedium] = []
    for piece in pieces:
        if isinstance(piece, TurnMedium) or not tags:
            split.append(piece)
            continue
        for number, text in enumerate(_TAG.split(piece)):
            is_tag = number % 2 == 1
            if is_tag and text in tags:
                split.append(TurnMedium(tags[text]))
            elif text:
                split.append(f"<{text}>" if is_tag else text)
    return split


def _matched(
    kind: Kind, contents: list[list[str | TurnMedium]], media: list[Any], turns: Sequence[RecordTurn]
) -> list[Any]:
    """Return the media of a kind in the order of their places. Media without places go to the first user turn."""
    places = _places(kind, contents)
    if media and not places:
        first = next((number for number, turn in enumerate(turns) if turn.message["role"] == "user"), 0)
        contents[first][:0] = [TurnMedium(kind) for _ in media]
        return media
    values = [place.value for place in places]
    unfilled = sum(value is None for value in values)
    if media and not unfilled and len(media) == len(places):
        return values  # the same media twice: in the parts, and in a column
    if len(media) != unfilled:
        raise Rejected(f"{_counted(len(places), f'<{kind}> tag')} but {_counted(len(media), kind)}")
    rest = iter(media)
    return [next(rest) if value is None else value for value in values]


def _places(kind: Kind, contents: list[list[str | TurnMedium]]) -> list[TurnMedium]:
    return [each for content in contents for each in content if isinstance(each, TurnMedium) and each.kind == kind]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _message(turn: RecordTurn, content: Content) -> Message:
    message = turn.message
    if isinstance(content, str):
        message["content"] = content
    elif any(isinstance(each, TurnMedium) for each in content):
        message["content"] = _parts(content)
    else:
        message["content"] = "".join(map(str, content))
    return message


def _parts(content: list[str | TurnMedium]) -> list[ContentPart]:
    parts: list[ContentPart] = []
    for each in content:
        if isinstance(each, TurnMedium):
            parts.append({"type": each.kind})
        elif parts and parts[-1]["type"] == "text":
            parts[-1]["text"] += each
        elif each:
            parts.append({"type": "text", "text": each})
    return parts
