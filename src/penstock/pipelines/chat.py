"""The chat pipeline: records of many datasets -> tokens, labels and media."""

import posixpath
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from penstock.config import ConfigError, RemoteConfig, Strict
from penstock.manifest.manifest import Manifest, fingerprint
from penstock.media.errors import BadMedia
from penstock.media.links import Links
from penstock.pipelines.chat_files import content_keys, locate_files
from penstock.pipelines.chat_hub import Located
from penstock.pipelines.pipeline import Context, Indexing
from penstock.readers.reader import Reader
from penstock.readers.records.building import build
from penstock.readers.records.files import Files, ending
from penstock.readers.records.manifests import GrowingRecordManifest, RecordManifest
from penstock.readers.records.packed import PackManifest, PackReader, count_packs
from penstock.readers.records.reader import RecordReader
from penstock.readers.records.sourceindex import SourceIndex
from penstock.recipes.chat import PACKAGES, About, Chat, RowKind
from penstock.recipes.chat_media import MEDIA_PACKAGES, ChatMedia
from penstock.recipes.extras import require_packages
from penstock.store.local import LocalStore
from penstock.store.remote.options import StoreOptions
from penstock.store.stores import OpenOnce, derive_from
from penstock.text.errors import Rejected
from penstock.text.formats import Sample, find, require_tokens
from penstock.text.holdout import Holdout
from penstock.text.judge import ChatJudge
from penstock.text.packs import deal
from penstock.text.rendered import Rendered
from penstock.text.texts import Texts

if TYPE_CHECKING:
    from penstock.recipes.processor import Processor

GROUP_ITEMS = 1_024
IMAGE_SIZE = 256  # height and width, where nothing else is said
PACKED_GROUP_ITEMS = 8_192  # more samples per group waste less, and more of them change packs


class ChatOptions(Strict):
    """The section ``chat:`` of a config.

    Attributes:
        tokenizer: a folder or a model on the hub, or a fast tokenizer of transformers.
        processor: in place of the tokenizer, a multimodal processor: a folder or a model on the hub, or a processor of
            transformers. It makes what stands for images in the text, and their tensors.
        tokens: special tokens by name, in place of the tokenizer's chat template.
        max_length: the most tokens of a sample, and the tokens of a pack.
        train_on: which messages are trained: the assistant's, its last one, or all.
        too_long: whether a longer sample is cut or dropped.
        padding: rows are padded to ``max_length`` or to the longest; ``none`` makes one row without padding.
        pack: whether rows are packs of samples, ``max_length`` tokens each.
        flat: whether packs are one row.
        pad_to_multiple_of: rows are padded to a multiple of so many tokens.
        count_labels: whether the index counts the labels of all items, so that every batch has ``global_label_tokens``,
            those of all ranks. Packs always have it.
        holdout: the share of the records that is held out for evaluation, chosen by a hash of their ids.
        only_holdout: whether the run takes these records alone. Use it with ``passes: 1``.
        image_processor: a folder or a model on the hub, or an image processor of transformers; by default our own,
            which resizes and normalises as CLIP's.
        image_size: height and width of images; by default 256, or what the image processor says.
        video_size: height and width of the frames of videos; by default likewise.
        max_video_frames: frames per video.
        audio_sample_rate: samples per second.
        audio_max_length: the longest sound, in units of 10 ms.
        audio_n_mels: bins of the log-mel spectrogram.
        use_raw_waveform: whether a sound is its samples, or a log-mel spectrogram.
        allow_urls: whether URLs in records are fetched.
        allow_private: whether also from addresses that are not public.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    tokenizer: Any = None
    processor: Any = None
    tokens: dict[str, str] | None = None
    max_length: int = Field(default=1024, ge=2)
    train_on: Literal["assistant", "last", "all"] = "assistant"
    too_long: Literal["cut", "drop"] = "cut"
    padding: Literal["max_length", "longest", "none"] = "longest"
    pack: bool = False
    flat: bool = False
    pad_to_multiple_of: int = Field(default=1, ge=1)
    count_labels: bool = False
    holdout: float = Field(default=0.0, ge=0, lt=1)
    only_holdout: bool = False
    image_processor: Any = None
    image_size: int | None = Field(default=None, ge=1)
    video_size: int | None = Field(default=None, ge=1)
    max_video_frames: int = Field(default=32, ge=1)
    audio_sample_rate: int = Field(default=16_000, ge=1_000)
    audio_max_length: int = Field(default=1000, ge=1)
    audio_n_mels: int = Field(default=80, ge=1)
    use_raw_waveform: bool = True
    allow_urls: bool = False
    allow_private: bool = False

    @field_validator("tokenizer", "processor", "image_processor", mode="after")
    @classmethod
    def _anchored(cls, value: Any, info: ValidationInfo) -> Any:
        return anchored(value, info) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> "ChatOptions":
        if self.processor is not None and (self.tokens is not None or self.image_processor is not None):
            other = "tokens" if self.tokens is not None else "image_processor"
            raise ValueError(f"processor: it brings its own template and image processor; remove `{other}`")
        if self.only_holdout and not self.holdout:
            raise ValueError("only_holdout: nothing is held out; give the `holdout` of the training run, such as 0.02")
        if self.pack and self.padding != "longest":
            raise ValueError("padding: packs always have max_length tokens; remove `padding` or `pack`")
        if self.flat and not self.pack:
            raise ValueError("flat: only packs can be one row; add `pack: true`, or use `padding: none`")
        if self.pack and self.max_length % self.pad_to_multiple_of:
            raise ValueError(
                f"pad_to_multiple_of: packs have max_length tokens, which is no multiple of {self.pad_to_multiple_of}"
            )
        return self


class ChatSource(Strict):
    """The keys of an entry of ``sources`` of chat data.

    Attributes:
        dtype: names the format of its records.
        path: a file, a folder, a pattern, a URL, or a dataset on the Hugging Face Hub.
        config: of a hub dataset.
        split: of a hub dataset or a folder.
        revision: of a hub dataset.
        limit: at most how many records an epoch uses.
        system: the system message of conversations that have none.
        remote: how to reach a remote store.
    """

    dtype: str
    path: str
    config: str | None = None
    split: str = "train"
    revision: str | None = None
    limit: int | None = Field(default=None, ge=1)
    system: str | None = None
    remote: RemoteConfig = RemoteConfig()

    @field_validator("path", mode="after")
    @classmethod
    def _anchored(cls, value: str, info: ValidationInfo) -> str:
        return anchored(value, info)

    @model_validator(mode="after")
    def _known(self) -> "ChatSource":
        try:
            find(self.dtype)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return self


def anchored(path: str, info: ValidationInfo) -> str:
    """Return a path relative to the config's folder, if there is such a file; a name on the hub stays as it is."""
    folder = Path((info.context or {}).get("folder", "."))
    if "://" in path or Path(path).is_absolute():
        return path
    is_file = (folder / path).exists() or bool(ending(path)) or set(path) & set("*?[")
    return str(folder / path) if is_file else path


class ChatPipeline:
    options = ChatOptions
    source = ChatSource

    def recipe(self, options: ChatOptions) -> Chat:
        if (options.tokenizer is None) == (options.processor is None):
            raise ConfigError(
                "chat.tokenizer: name a folder or a model on the hub, such as Qwen/Qwen2.5-0.5B; or name a multimodal "
                "processor with chat.processor, such as Qwen/Qwen2-VL-2B-Instruct, which has a tokenizer of its own"
            )
        processor = _processor(options)
        texts = Texts(
            options.tokenizer if processor is None else processor,
            tokens=options.tokens,
            max_length=options.max_length,
            train_on=options.train_on,
            too_long=options.too_long,
        )
        kinds: dict[str, RowKind] = {"max_length": "max_length", "longest": "longest", "none": "padding_free"}
        return Chat(
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

    def resolve(self, source: ChatSource) -> Located:
        options = StoreOptions(**source.remote.model_dump())
        return locate_files(source.path, options, config=source.config, split=source.split, revision=source.revision)

    def open(self, source: ChatSource, needs: Chat, context: Context) -> tuple[Manifest, Reader[Any, Any]]:
        opened = _Opened(source, needs, context)
        index = opened.index
        about = opened.about
        manifest: Manifest
        if needs.packs:
            index.finish()
            counts = count_packs(index, needs.texts.max_length, deal, opened.shelf, opened.fingerprint)
            own = fingerprint(opened.fingerprint, "packs", needs.texts.max_length)
            packs = PackManifest(
                opened.name,
                index,
                counts,
                fingerprint=own,
                limit=source.limit,
                modality=about.format.modality,
            )
            return packs, PackReader(packs, index, about, needs.texts.max_length, deal, context.seed)
        if context.needs_sizes:
            manifest = RecordManifest(
                opened.name,
                index,
                fingerprint=opened.fingerprint,
                limit=source.limit,
                modality=about.format.modality,
            )
        else:
            manifest = GrowingRecordManifest(
                opened.name,
                index,
                fingerprint=opened.fingerprint,
                limit=source.limit,
                modality=about.format.modality,
            )
        return manifest, RecordReader(manifest, index, about, counted=opened.counted)

    def index(self, source: ChatSource, recipe: Chat, context: Context, how: Indexing) -> str:
        opened = _Opened(source, recipe, context, keep=how.keep_tokens)
        build(opened.index, how.workers, lambda done, pieces: how.progress(done, pieces, ""))
        index = opened.index
        items = int(index.starts(0)[-1])
        tokens = f", {index.tokens:,} tokens" if index.tokens else ""
        rejected = "; ".join(f"{count:,} × {reason}" for reason, count in index.reasons.most_common(8))
        left_out = f"; {index.records - items:,} left out: {rejected}" if rejected else ""
        return f"{items:,} items of {index.records:,} records in {len(index.paths):,} files{tokens}{left_out}"


class _Opened:
    """One source, resolved to files, with its index."""

    def __init__(self, source: ChatSource, recipe: Chat, context: Context, *, keep: bool = False) -> None:
        located: Located = context.resolved
        options = StoreOptions(**source.remote.model_dump())
        open_store = OpenOnce(context.stores, located.store, options, located.infos)
        format = find(source.dtype)
        if recipe.texts.tokens is not None:
            require_tokens([format], recipe.texts.tokens)
        count = recipe.packs or recipe.count_labels or "tokens" in context.weighed_by
        self.counted = count
        links = Links(
            open_store=open_store,
            allow_outside=isinstance(open_store(), LocalStore),
            allow_urls=recipe.allow_urls,
            allow_private=recipe.allow_private,
        )
        judge = ChatJudge(
            recipe.texts,
            format,
            source.system,
            count=count,
            keep=keep,
            holdout=recipe.holdout,
            expand=None if recipe.media.processor is None else _Expand(recipe.media, links),
        )
        self.shelf = context.scratch / "indexes"
        files = Files(open_store, partial(derive_from, context.stores, open_store), self.shelf, located.medium)
        self.name = context.name or Path(source.path).name
        group_items = PACKED_GROUP_ITEMS if recipe.packs else GROUP_ITEMS
        self.index = SourceIndex(self.name, files, located.paths, judge, self.shelf, group_items)
        self.about = About(format, source.system, links)
        self.fingerprint = fingerprint(judge.key, content_keys(located, files), group_items)


@dataclass(frozen=True)
class _Expand:
    """Expands texts by the headers of images; see ``text.judge.Expand``."""

    media: ChatMedia
    links: Links

    @property
    def key(self) -> str:
        return f"urls {self.links.allow_urls}, private {self.links.allow_private}"

    def __call__(self, sample: Sample, rendered: Rendered, path: str, /) -> Rendered:
        try:
            return self.media.measured(sample, rendered, partial(self.links, folder=posixpath.dirname(path)))
        except BadMedia as error:
            raise Rejected(str(error)) from None


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
