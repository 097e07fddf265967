"""The chat pipeline: records of many datasets -> tokens, labels and media."""

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal

from penstock.config import ConfigError
from penstock.manifest.errors import ManifestError
from penstock.manifest.manifest import Manifest, fingerprint
from penstock.media.errors import BadMedia
from penstock.media.links import Links
from penstock.pipelines.chat_files import locate_files
from penstock.pipelines.chat_hub import LocatedFiles
from penstock.pipelines.chat_options import ChatOptions, ChatSource
from penstock.pipelines.chat_records import GROUP_ITEMS, OpenedRecords
from penstock.pipelines.chat_texts import RememberedTexts
from penstock.pipelines.pipeline import BasePipeline, Context, Indexing
from penstock.readers.indextasks import IndexTask
from penstock.readers.reader import Reader
from penstock.readers.records.building import build, build_in_processes
from penstock.readers.records.distanttasks import distant_tasks
from penstock.readers.records.packed import PackGroups, PackManifest, PackReader, count_packs
from penstock.readers.records.reader import RecordReader
from penstock.readers.records.sourceindex import counted
from penstock.recipes.chat import PACKAGES, Chat, ChatContext, PaddedChat, RowKind
from penstock.recipes.chat_media import MEDIA_PACKAGES, ChatMedia
from penstock.recipes.extras import require_packages
from penstock.store.remote.options import StoreOptions
from penstock.text.errors import Rejected
from penstock.text.formats import Sample, find, require_tokens
from penstock.text.holdout import Holdout
from penstock.text.judge import ChatJudge
from penstock.text.packs import VERSION, deal
from penstock.text.rendered import Rendered

if TYPE_CHECKING:
    from penstock.recipes.processor import Processor

IMAGE_SIZE = 256  # height and width, where nothing else is said
PACKED_GROUP_ITEMS = 8_192  # more samples per group waste less, and more of them change packs


class ChatPipeline(BasePipeline[ChatSource, Chat]):
    options = ChatOptions
    source = ChatSource
    keeps_tokens = True

    def recipe(self, options: ChatOptions) -> Chat:
        if (options.tokenizer is None) == (options.processor is None):
            raise ConfigError(
                "chat.tokenizer: name a folder or a model on the hub, such as Qwen/Qwen2.5-0.5B; or name a multimodal "
                "processor with chat.processor, such as Qwen/Qwen2-VL-2B-Instruct, which has a tokenizer of its own"
            )
        require_packages("recipe: chat", "chat", "transformers")
        processor = _processor(options)
        texts = RememberedTexts(
            options.tokenizer,
            owner=processor,
            tokens=options.tokens,
            max_length=options.max_length,
            train_on=options.train_on,
            too_long=options.too_long,
        )
        kinds: dict[str, RowKind] = {"max_length": "max_length", "longest": "longest", "none": "padding_free"}
        make = PaddedChat if not options.pack and options.padding == "longest" else Chat
        return make(
            texts,
            _media(options),
            processor=processor,
            rows="packs" if options.pack else kinds[options.padding],
            flat=options.flat,
            pad_to_multiple_of=options.pad_to_multiple_of,
            allow_urls=options.allow_urls,
            allow_private=options.allow_private,
            count_labels=options.count_labels,
            holdout=Holdout(options.holdout, options.only_holdout) if options.holdout else None,
        )

    def resolve(self, source: ChatSource) -> LocatedFiles:
        missing = next((folder for folder in source.media_root if not folder.is_dir()), None)
        if missing is not None:
            raise ConfigError(f"{source.path}: media_root: there is no folder {missing}")
        options = StoreOptions(**source.remote.model_dump())
        return locate_files(source.path, options, config=source.config, split=source.split, revision=source.revision)

    def prepare(
        self, sources: Sequence[ChatSource], recipe: Chat, contexts: Sequence[Context], how: Indexing | None
    ) -> Sequence["_IndexedSource"]:
        keep = None if how is None else how.keep_tokens
        each = zip(sources, contexts, strict=True)
        opened = [_IndexedSource(source, recipe, context, keep=keep) for source, context in each]
        indexes = [each.index for each in opened]
        if how is not None or all(context.needs_sizes for context in contexts):
            with suppress(ManifestError):  # raised again where the source is opened, which names it
                if how is None:
                    build_in_processes(indexes)
                else:
                    build_in_processes(indexes, how.workers, how.progress)
        return opened

    def index_tasks(
        self, sources: Sequence[ChatSource], recipe: Chat, contexts: Sequence[Context], how: Indexing
    ) -> Iterator[IndexTask]:
        each = zip(sources, contexts, strict=True)
        opened = [_IndexedSource(source, recipe, context, keep=how.keep_tokens) for source, context in each]
        return distant_tasks([each.index for each in opened], how.share)

    def open(self, source: ChatSource, needs: Chat, context: Context) -> tuple[Manifest, Reader[Any, Any]]:
        opened = context.prepared or _IndexedSource(source, needs, context)
        index = opened.index
        about = opened.about
        modality = about.format.modality
        if context.needs_sizes:
            index.finish()  # reads each file once, also for the fingerprint
        if needs.packs:
            groups = PackGroups(index, PACKED_GROUP_ITEMS)
            own = fingerprint(opened.fingerprint(), "packs", VERSION, needs.texts.max_length)
            counts = count_packs(groups, needs.texts.max_length, deal, opened.records.metadata, own)
            packs = PackManifest(
                opened.records.name, groups, counts, fingerprint=own, limit=source.limit, modality=modality
            )
            return packs, PackReader(packs, groups, about, needs.texts.max_length, deal, context.seed)
        manifest = opened.records.manifest(index, opened.fingerprint(), limit=source.limit, modality=modality)
        return manifest, RecordReader(manifest, index, about, counted=opened.counted)

    def index(self, source: ChatSource, recipe: Chat, context: Context, how: Indexing) -> str:
        opened = _IndexedSource(source, recipe, context, keep=how.keep_tokens)
        show = how.progress
        build([opened.index], how.workers, lambda done, pieces: show(done, pieces, ""), sha256=how.sha256)
        index = opened.index
        items = int(index.starts(0)[-1])
        tokens = f", {index.tokens:,} tokens" if index.tokens else ""
        left_out = f"; {index.records - items:,} left out: {counted(index.reasons)}" if index.reasons else ""
        kept = f"; tokens kept: {decimal(size)}" if (size := index.kept_bytes()) else ""
        if index.tokens and not size:
            kept = "; tokens are not kept (--tokens keeps them)"
        losses = f"; of the items {counted(index.losses)}" if index.losses else ""
        count = len(index.known)
        files = "1 file" if count == 1 else f"{count:,} files"
        return f"{items:,} items of {index.records:,} records in {files}{tokens}{kept}{left_out}{losses}"


class _IndexedSource:
    """One source of chat data, with its index.

    By default, tokens that are counted anyway are kept while the disk has room. With ``keep``, those of all items are.
    """

    def __init__(self, source: ChatSource, recipe: Chat, context: Context, *, keep: bool | None = None) -> None:
        records = OpenedRecords(context.name or Path(source.path).name, source.remote, context)
        format = find(source.dtype)
        if recipe.texts.tokens is not None:
            require_tokens([format], recipe.texts.tokens)
        if isinstance(recipe.texts, RememberedTexts):
            recipe.texts.remember(records.metadata)
        self.counted = recipe.packs or recipe.count_labels or "tokens" in context.weighed_by
        links = records.links(source.media_root, allow_urls=recipe.allow_urls, allow_private=recipe.allow_private)
        judge = ChatJudge(
            recipe.texts,
            format,
            source.system,
            count=self.counted,
            keep=self.counted if keep is None else keep,
            holdout=recipe.holdout,
            expand=None if recipe.media.processor is None else _ImageExpansion(recipe.media, links),
        )
        group_items = PACKED_GROUP_ITEMS if recipe.packs else GROUP_ITEMS
        wanted = () if recipe.holdout is None else (recipe.holdout.reason,)
        self.records = records
        self.index = records.index(judge, group_items, wanted, must_keep=bool(keep))
        self.about = ChatContext(format, source.system, links)
        self._identity = judge.identity
        self._group_items = group_items

    def fingerprint(self) -> str:
        return self.records.fingerprint(self._identity, self.index, self._group_items)


@dataclass(frozen=True)
class _ImageExpansion:
    """Expands texts by the headers of images; see ``text.judge.Expand``."""

    media: ChatMedia
    links: Links

    @property
    def key(self) -> str:
        return f"urls {self.links.allow_urls}, private {self.links.allow_private}"

    @property
    def folders(self) -> str:
        return " ".join(map(str, self.links.media_root))

    def __call__(self, sample: Sample, rendered: Rendered, path: str, /) -> Rendered:
        try:
            return self.media.measured(sample, rendered, partial(self.links, folder=posixpath.dirname(path)))
        except BadMedia as error:
            raise Rejected(error.kind) from None


def _processor(options: ChatOptions) -> "Processor | None":
    if options.processor is None:
        return None
    require_packages("chat.processor", "chat", *PACKAGES, *MEDIA_PACKAGES)
    from penstock.recipes.processor import Processor  # imports torch

    return Processor(options.processor)


def _media(options: ChatOptions) -> dict[str, Any]:
    """Return the options of media."""
    names = (
        "image_size",
        "video_size",
        "max_video_frames",
        "audio_sample_rate",
        "audio_max_length",
        "audio_n_mels",
        "use_raw_waveform",
    )
    chosen = {name: getattr(options, name) for name in names}
    if options.image_processor is not None:
        return {**chosen, "image_processor": options.image_processor}
    return {**chosen, **{name: chosen[name] or IMAGE_SIZE for name in ("image_size", "video_size")}}
