"""The keys of chat runs: the section ``chat:`` and the entries of ``sources``. Opens nothing."""

from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from penstock.config import ConfigError, RemoteConfig, Strict
from penstock.config.own import CannotImport, import_own
from penstock.readers.records.files import ending
from penstock.text.formats import find


class ChatOptions(Strict):
    """The section ``chat:`` of a config.

    Attributes:
        tokenizer: a folder or a model on the hub, or a fast tokenizer of transformers.
        processor: in place of the tokenizer, a multimodal processor: a folder or a model on the hub, or a processor of
            transformers. It makes what stands for images in the text, and their tensors.
        tokens: special tokens by name, in place of the tokenizer's chat template.
        formats: modules that are imported for the formats that they register, also from the folder of the config.
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
    formats: tuple[str, ...] = ()
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

    @field_validator("formats", mode="after")
    @classmethod
    def _imported(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        for name in value:
            try:
                import_own(name, folder_of(info))
            except CannotImport as error:
                raise CannotImport(f"formats: {name!r} cannot be imported: {error}") from None
        return value

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
        limit: at most how many records an epoch uses; of packs, those that hold so many on average.
        system: the system message of conversations that have none.
        media_root: local folders, one or several. Paths in records that are relative to one of them are found, and
            files below them may be opened; without it, files below the folder of the record. ``/`` allows all.
        remote: how to reach a remote store.
    """

    dtype: str
    path: str
    media_root: tuple[Path, ...] = ()
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

    @field_validator("media_root", mode="before")
    @classmethod
    def _several(cls, value: Any, info: ValidationInfo) -> Any:
        folders = [value] if isinstance(value, str | Path) else value
        if not isinstance(folders, list | tuple) or not all(isinstance(each, str | Path) for each in folders):
            raise ValueError("a folder, or a list of folders")
        remote = next((each for each in map(str, folders) if "://" in each), None)
        if remote is not None:
            raise ValueError(f"{remote}: a folder of this machine; records of a store may name files of that store")
        return tuple(folder_of(info).absolute() / each for each in folders)

    @model_validator(mode="after")
    def _known(self) -> "ChatSource":
        try:
            find(self.dtype)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return self


def folder_of(info: ValidationInfo) -> Path:
    """Return the folder of the config."""
    return Path((info.context or {}).get("folder", "."))


def anchored(path: str, info: ValidationInfo) -> str:
    """Return a path relative to the config's folder, if there is such a file; a name on the hub stays as it is."""
    folder = folder_of(info)
    if "://" in path or Path(path).is_absolute():
        return path
    is_file = (folder / path).exists() or bool(ending(path)) or set(path) & set("*?[")
    return str(folder / path) if is_file else path
