"""The chat recipe: tokens, labels and media of conversations, as rows. Knows no file and no plan."""

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.media.content import OpenLink
from penstock.media.errors import BadMedia
from penstock.readers.errors import ContentError
from penstock.readers.records.record import Record
from penstock.recipes.chat_media import ChatMedia, SampleImages
from penstock.recipes.chat_panels import chat_panels
from penstock.recipes.chat_preview import preview_row
from penstock.recipes.extras import require_packages
from penstock.recipes.model_fields import Placed, model_fields
from penstock.recipes.panels import Panel
from penstock.recipes.recipe import Bad, Item, PaddedRecipe
from penstock.text.errors import Rejected
from penstock.text.formats import Format, Sample
from penstock.text.formats.sample import FLAGS
from penstock.text.holdout import Holdout
from penstock.text.kepttokens import kept_tokens
from penstock.text.labels import Encoded
from penstock.text.rendered import Rendered
from penstock.text.rows import Fields, packed, padded, padding_free
from penstock.text.texts import RenderedSample, Texts

if TYPE_CHECKING:
    from torch import Tensor

    from penstock.recipes.processor import Processor

PACKAGES = ("torch", "transformers")
RowKind = Literal["max_length", "longest", "padding_free", "packs"]

_NO_TOKENS = np.zeros(0, dtype=np.int64)
_EMPTY = Encoded(_NO_TOKENS, _NO_TOKENS)  # the row of a slot that is padding


class ChatContext(NamedTuple):
    """What the recipe knows about a source: the ``about`` of its records.

    Attributes:
        format: Format of its records.
        system: System message for conversations without one.
        open_link: Function that opens a link of a record relative to a folder: ``open_link(link, folder=…)``.
    """

    format: Format
    system: str | None
    open_link: Callable[..., bytes]


@dataclass(frozen=True, slots=True)
class ReadySample:
    """One sample, ready for its row.

    Attributes:
        encoded: Tokens and labels.
        sample: Sample that the format made.
        text: Text that was tokenized, with one placeholder per medium.
        media: Tensors by key of the batch.
        processed: Fields that a multimodal processor made from the images.
    """

    encoded: Encoded
    sample: Sample
    text: str
    media: "Mapping[str, list[Tensor]]"
    processed: "Mapping[str, Tensor]"


@dataclass(frozen=True, slots=True)
class _RowMember:
    """One record of a row: a pack has several."""

    index: int  # of the row
    number: int  # in the row
    record: Record
    most: int  # tokens that were planned; 0 for any number


class _Prepared(NamedTuple):
    """A record whose text is written."""

    member: _RowMember
    written: RenderedSample
    rendered: Rendered  # with all the tokens that stand for images
    images: SampleImages  # decoded, for a multimodal processor
    tokens: Encoded | None = None  # that the index has kept


class Chat:
    """Makes batches of tokens, labels and media.

    Args:
        texts: Template and tokenizer.
        media: Options of ``MediaTensors``.
        processor: Multimodal processor for images; None makes tensors of them.
        rows: How samples become rows: padded to ``max_length`` or to the longest, one row without padding, or packs.
        flat: Whether all packs of a batch become one row.
        pad_to_multiple_of: Multiple that row lengths are padded to, in tokens.
        allow_urls: Whether URLs in records are fetched.
        allow_private: Whether URLs may point to addresses that are not public.
        count_labels: Whether the index counts labels even if rows do not need the counts.
        holdout: Choice of the records that are held out; None takes all records.
    """

    def __init__(
        self,
        texts: Texts,
        media: Mapping[str, Any],
        *,
        processor: "Processor | None" = None,
        rows: RowKind = "longest",
        flat: bool = False,
        pad_to_multiple_of: int = 1,
        allow_urls: bool = False,
        allow_private: bool = False,
        count_labels: bool = False,
        holdout: Holdout | None = None,
    ) -> None:
        self.texts = texts
        self.media = ChatMedia(media, processor)
        self._rows: RowKind = rows
        self._flat = flat
        self._multiple = pad_to_multiple_of
        self.allow_urls = allow_urls
        self.allow_private = allow_private
        self.count_labels = count_labels
        self.holdout = holdout

    @property
    def needs(self) -> "Chat":
        """The recipe itself: the index needs its texts and options."""
        return self

    @property
    def packs(self) -> bool:
        """Whether rows are packs, which are planned from the lengths of samples."""
        return self._rows == "packs"

    def start(self, size: int) -> list[list[ReadySample]]:
        require_packages("recipe: chat", "chat", *PACKAGES)
        self.media.load()
        return [[] for _ in range(size)]

    def fill(self, work: list[list[ReadySample]], records: Mapping[int, tuple[Item, Sequence[Record]]]) -> list[Bad]:
        bad: list[Bad] = []
        prepared: list[_Prepared] = []
        for index, (item, members) in records.items():
            work[index] = []
            for number, record in enumerate(members):
                member = _RowMember(index, number, record, record.length if self.packs else item.length)
                try:
                    prepared.append(self._prepare(member))
                except (ContentError, Rejected, BadMedia) as error:
                    bad.append(self._bad(member, error))
        new = [each.rendered for each in prepared if each.tokens is None]
        encoded = iter(self.texts.encode(new) if new else ())
        for each in prepared:
            tokens = next(encoded) if each.tokens is None else each.tokens
            try:
                work[each.member.index].append(self._made(each, tokens))
            except (Rejected, BadMedia) as error:
                bad.append(self._bad(each.member, error))
        return bad

    def _bad(self, member: _RowMember, error: Exception) -> Bad:
        """Return the report of an unusable sample. Its place in a pack becomes padding."""
        reason = error.reason if isinstance(error, ContentError) else str(error)
        if not self.packs:
            return Bad(member.index, reason)
        return Bad(member.index, reason, "padded", member.number)

    def _prepare(self, member: _RowMember) -> _Prepared:
        """Render a record. A multimodal processor needs the decoded images for that.

        If the index has kept the tokens, the record is read only where it has media.
        """
        about: ChatContext = member.record.about
        data = member.record.kept()
        kept = None if data is None else kept_tokens(data)
        if kept is not None and not kept.has_media:
            written = RenderedSample(kept.sample, Rendered(kept.text, ()))
            return _Prepared(member, written, written.rendered, SampleImages((), {}), kept.encoded)
        written = self.texts.write(member.record.load(), about.format, about.system)
        tokens = None if kept is None else kept.encoded
        images = self.media.decoded(written.sample, _open_link(member.record))
        if images is None:
            return _Prepared(member, written, written.rendered, SampleImages((), {}), tokens)
        return _Prepared(member, written, self.media.expanded(written.rendered, images.texts), images, tokens)

    def _made(self, prepared: _Prepared, tokens: Encoded | Rejected) -> ReadySample:
        if isinstance(tokens, Rejected):
            raise tokens
        record = prepared.member.record
        if prepared.member.most and len(tokens) > prepared.member.most:
            raise Rejected(f"has {len(tokens)} tokens, but had {record.length} when it was indexed")
        sample = prepared.written.sample
        media = self.media.tensors(sample, tokens, _open_link(record))
        processed = self.media.kept(prepared.images, len(tokens.cut_media))
        return ReadySample(tokens, sample, prepared.written.rendered.text, media, processed)

    def finish(self, work: list[list[ReadySample]]) -> dict[str, Any]:
        fields = self._tokens([[made.encoded for made in row] for row in work])
        flat = [(row, made) for row, samples in enumerate(work) for made in samples]
        fields["sample_rows"] = np.array([row for row, _ in flat], dtype=np.int64)
        fields["text"] = [made.text for _, made in flat]
        fields["dtype"] = [made.sample.get("dtype", "") for _, made in flat]
        for flag in FLAGS:
            fields[flag] = any(made.sample.get(flag, False) for _, made in flat)
        prompts = [made.sample.get("gen_prompts") for _, made in flat]
        if any(prompts):
            fields["gen_prompts"] = prompts
        if any(made.media for _, made in flat):
            from penstock.recipes.collate import media_fields  # imports torch

            fields |= media_fields([made.media for _, made in flat], [row for row, _ in flat])
        if self.media.processor is not None:
            placed = [Placed(row, made.encoded, made.processed) for row, made in flat]
            fields |= model_fields(self.media.processor, fields, placed)
        return fields

    def _tokens(self, rows: list[list[Encoded]]) -> Fields:
        pad = self.texts.pad_id
        if self.packs:
            return packed(rows, pad, length=self.texts.max_length, flat=self._flat)
        alone = [row[0] if row else _EMPTY for row in rows]
        if self._rows == "padding_free":
            return padding_free([row[0] for row in rows if row], pad, pad_to_multiple_of=self._multiple)
        length = self.texts.max_length if self._rows == "max_length" else None
        return padded(alone, pad, length=length, pad_to_multiple_of=self._multiple)

    def preview(self, batch: dict[str, Any], index: int) -> Iterable[tuple[str, bytes]]:
        """Yield the text of a row, the text with its trained parts in colour, and the media."""
        return preview_row(batch, index, self.texts.load_tokenizer(), self.media)

    def panels(self, batch: dict[str, Any], index: int) -> Iterable[Panel]:
        return chat_panels(batch, index, self.texts.load_tokenizer(), self.media, self.texts.tokens or {})


class PaddedChat(Chat, PaddedRecipe):
    """A chat recipe whose rows are padded to the longest of a batch, so that batches by length suit it."""

    length_unit = "tokens"

    @property
    def length_key(self) -> str:
        return f"multiple of {self._multiple}"

    def planned_lengths(self, lengths: NDArray[np.int64], draws: NDArray[np.uint64]) -> NDArray[np.int64]:  # noqa: ARG002
        return -(-lengths // self._multiple) * self._multiple


def _open_link(record: Record) -> OpenLink:
    about: ChatContext = record.about
    return partial(about.open_link, folder=posixpath.dirname(record.path))
