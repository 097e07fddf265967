"""The chat recipe: tokens, labels and media of conversations, as rows. Knows no file and no plan."""

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np

from penstock.media.content import OpenLink
from penstock.media.errors import BadMedia
from penstock.readers.errors import ContentError
from penstock.readers.records.reader import Record
from penstock.recipes.extras import require_packages
from penstock.recipes.recipe import Bad, Item
from penstock.text.errors import Rejected
from penstock.text.formats import Format, Sample
from penstock.text.labels import Encoded
from penstock.text.rendered import Rendered
from penstock.text.rows import packed, padded, padding_free
from penstock.text.texts import Texts

PACKAGES = ("torch", "transformers")
MEDIA_PACKAGES = ("PIL", "av", "soundfile", "soxr")
RowKind = Literal["max_length", "longest", "padding_free", "packs"]

# Of a sample: the keys of its media, what makes a tensor of each, and the key of the batch.
_MEDIA = {
    "images": ("image", "images"),
    "videos": ("video", "videos"),
    "audios": ("audio", "audio"),
    "gen_images": ("image", "gen_images"),
    "gen_videos": ("video", "gen_videos"),
    "target_audio": ("audio", "target_audio"),
    "speaker_ref": ("speaker_ref", "speaker_ref"),
}
_CUT_WITH_TEXT = ("images", "videos", "audios")  # they stand in the text, and are cut off with it
_FLAGS = ("has_image_gen", "has_video_gen", "has_asr", "has_tts")


_NO_TOKENS = np.zeros(0, dtype=np.int64)
_EMPTY = Encoded(_NO_TOKENS, _NO_TOKENS)  # the row of a slot that is padding


class About(NamedTuple):
    """What the recipe has to know of a source.

    Attributes:
        format: makes samples of its records.
        system: the system message of conversations that have none.
        open_link: opens what records name, relative to a folder: ``open_link(link, folder=…)``.
    """

    format: Format
    system: str | None
    open_link: Callable[..., bytes]


@dataclass(frozen=True, slots=True)
class Made:
    """One sample, ready for its row.

    Attributes:
        encoded: its tokens.
        sample: as its format made it.
        text: that was tokenized.
        media: tensors, by key of the batch.
    """

    encoded: Encoded
    sample: Sample
    text: str
    media: Mapping[str, list[Any]]


@dataclass(frozen=True, slots=True)
class _Member:
    """One record of a row: a pack has several."""

    index: int  # of the row
    number: int  # in the row
    record: Record


class Chat:
    """Makes batches of tokens, labels and media.

    Args:
        texts: template and tokenizer.
        media: options of ``MediaTensors``.
        rows: how samples become rows: padded to ``max_length`` or to the longest, in one row without padding, or packs.
        flat: whether packs are one row.
        pad_to_multiple_of: rows are padded to a multiple of so many tokens.
        allow_urls: whether URLs in records are fetched.
        allow_private: whether also from addresses that are not public.
    """

    def __init__(
        self,
        texts: Texts,
        media: Mapping[str, Any],
        *,
        rows: RowKind = "longest",
        flat: bool = False,
        pad_to_multiple_of: int = 1,
        allow_urls: bool = False,
        allow_private: bool = False,
    ) -> None:
        self.texts = texts
        self._media_options = dict(media)
        self._rows: RowKind = rows
        self._flat = flat
        self._multiple = pad_to_multiple_of
        self.allow_urls = allow_urls
        self.allow_private = allow_private

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_media"}

    @property
    def needs(self) -> "Chat":
        """Itself: the index has to know what becomes of a record."""
        return self

    @property
    def packs(self) -> bool:
        """Whether rows are packs, which are planned from the lengths of samples."""
        return self._rows == "packs"

    @cached_property
    def _media(self) -> Any:
        from penstock.media.tensors import MediaTensors  # imports torch

        return MediaTensors(**self._media_options)

    def start(self, size: int) -> list[list[Made]]:
        require_packages("recipe: chat", "chat", *PACKAGES)
        return [[] for _ in range(size)]

    def fill(self, work: list[list[Made]], records: Mapping[int, tuple[Item, Sequence[Record]]]) -> list[Bad]:
        bad: list[Bad] = []
        written: list[tuple[_Member, Sample, Rendered]] = []
        for index, (_, members) in records.items():
            work[index] = []
            for number, record in enumerate(members):
                member = _Member(index, number, record)
                try:
                    about: About = record.about
                    sample, rendered = self.texts.write(record.load(), about.format, about.system)
                    written.append((member, sample, rendered))
                except (ContentError, Rejected) as error:
                    bad.append(self._bad(member, getattr(error, "reason", str(error))))
        encoded = self.texts.encode([rendered for _, _, rendered in written])
        for (member, sample, rendered), tokens in zip(written, encoded, strict=True):
            if isinstance(tokens, Rejected):
                bad.append(self._bad(member, str(tokens)))
                continue
            try:
                media = self._tensors(member.record, sample, tokens)
            except BadMedia as error:
                bad.append(self._bad(member, str(error)))
                continue
            work[member.index].append(Made(tokens, sample, rendered.text, media))
        return bad

    def _bad(self, member: _Member, reason: str) -> Bad:
        """Return what becomes of a sample that can't be used: in a pack its place stays empty."""
        if not self.packs:
            return Bad(member.index, reason)
        return Bad(member.index, reason, "padded", member.number)

    def _tensors(self, record: Record, sample: Sample, tokens: Encoded) -> dict[str, list[Any]]:
        """Make tensors of the media that are left after a long text was cut."""
        about: About = record.about
        open_link: OpenLink = partial(about.open_link, folder=posixpath.dirname(record.located.file.path))
        cut = {kind: sum(medium.kind == kind for medium in tokens.cut_media) for kind in ("image", "video", "audio")}
        found: dict[str, list[Any]] = {}
        for key, (kind, name) in _MEDIA.items():
            values: Any = sample.get(key)
            if values is None:
                continue
            listed = list(values) if isinstance(values, list | tuple) else [values]
            if key in _CUT_WITH_TEXT:
                listed = listed[: len(listed) - cut[kind]]
            if listed:
                require_packages("chat with media", "chat", *MEDIA_PACKAGES)
                found[name] = [getattr(self._media, kind)(value, open_link) for value in listed]
        return found

    def finish(self, work: list[list[Made]]) -> dict[str, Any]:
        fields = self._tokens([[made.encoded for made in row] for row in work])
        flat = [(row, made) for row, samples in enumerate(work) for made in samples]
        fields["text"] = [made.text for _, made in flat]
        fields["dtype"] = [made.sample.get("dtype", "") for _, made in flat]
        for flag in _FLAGS:
            fields[flag] = any(made.sample.get(flag, False) for _, made in flat)
        prompts = [made.sample.get("gen_prompts") for _, made in flat]
        if any(prompts):
            fields["gen_prompts"] = prompts
        if any(made.media for _, made in flat):
            from penstock.recipes.collate import media_fields  # imports torch

            fields |= media_fields([made.media for _, made in flat], [row for row, _ in flat])
        return fields

    def _tokens(self, rows: list[list[Encoded]]) -> dict[str, Any]:
        pad = self.texts.pad_id
        if self.packs:
            return packed(rows, pad, length=self.texts.max_length, flat=self._flat)
        alone = [row[0] if row else _EMPTY for row in rows]
        if self._rows == "padding_free":
            return padding_free([row[0] for row in rows if row], pad, pad_to_multiple_of=self._multiple)
        length = self.texts.max_length if self._rows == "max_length" else None
        return padded(alone, pad, length=length, pad_to_multiple_of=self._multiple)

    def preview(self, batch: dict[str, Any], index: int) -> Iterable[tuple[str, bytes]]:
        yield "txt", str(batch["text"][index]).encode()
