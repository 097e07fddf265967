"""Formats of images and videos that are to be understood: questions, captions, screenshots of pages."""

from penstock.text.errors import Rejected
from penstock.text.formats.columns import Columns, columns_of
from penstock.text.formats.media import IMAGES, VIDEOS_BY_ID
from penstock.text.formats.messages import RecordTurn
from penstock.text.formats.pairs import ANSWERS, QUESTIONS, pair_of
from penstock.text.formats.sample import Kind, Record, Sample, Tokens
from penstock.text.formats.shapes import conversation_of, listed_of, required, sample_of

_CAPTIONS = ("caption", "captions", "description", "name", "text", "texts", "txt")
_PAGES = ("html", "code", "text")
_DESCRIBE: dict[Kind, str] = {"image": "Describe this image.", "video": "Describe this video."}
_WRITE_PAGE = "Write the HTML code of this page."
_COLUMNS: dict[Kind, tuple[str, ...]] = {"image": IMAGES, "video": VIDEOS_BY_ID}


def vision(record: Record, _: Tokens) -> Sample:
    """Format a question about an image, or a caption. A question may come without an image."""
    columns = columns_of(record)
    turns = _asked(columns)
    if turns is None:
        return _seen("image", columns, _captioned("image", columns))
    return sample_of(turns, columns, {"image": IMAGES})


def image_vqa(record: Record, _: Tokens) -> Sample:
    """Format a question about an image."""
    columns = columns_of(record)
    return _seen("image", columns, _asked(columns))


def image_caption(record: Record, _: Tokens) -> Sample:
    """Format an image and its caption."""
    columns = columns_of(record)
    return _seen("image", columns, listed_of(columns) or _captioned("image", columns))


def ui_to_code(record: Record, _: Tokens) -> Sample:
    """Format a screenshot and the code of its page."""
    columns = columns_of(record)
    turns = listed_of(columns) or pair_of(columns, QUESTIONS, (*_PAGES, *ANSWERS), _WRITE_PAGE)
    return _seen("image", columns, turns)


def video(record: Record, _: Tokens) -> Sample:
    """Format a question about a video, or a caption."""
    columns = columns_of(record)
    return _seen("video", columns, _asked(columns) or _captioned("video", columns))


def video_qa(record: Record, _: Tokens) -> Sample:
    """Format a question about a video."""
    columns = columns_of(record)
    return _seen("video", columns, _asked(columns))


def video_caption(record: Record, _: Tokens) -> Sample:
    """Format a video and its caption."""
    columns = columns_of(record)
    return _seen("video", columns, listed_of(columns) or _captioned("video", columns))


def _asked(columns: Columns) -> list[RecordTurn] | None:
    """Return the conversation of a record. Here ``label`` may be the answer, not a verdict on it."""
    turns = conversation_of(columns)
    if turns is None:
        turns = pair_of(columns, answers=("label",))
        columns.pop("label", None)
    return turns


def _captioned(kind: Kind, columns: Columns) -> list[RecordTurn] | None:
    return pair_of(columns, QUESTIONS, (*_CAPTIONS, *ANSWERS), _DESCRIBE[kind])


def _seen(kind: Kind, columns: Columns, turns: list[RecordTurn] | None) -> Sample:
    sample = sample_of(required(turns, columns), columns, {kind: _COLUMNS[kind]})
    if f"{kind}s" not in sample:
        raise Rejected(f"no {kind}")
    return sample
