"""The keys of chat runs: the section ``chat:`` and the entries of ``sources``. Opens nothing."""

from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from penstock.config import ConfigError, RemoteConfig, Strict
from penstock.config.own import CannotImport, import_own
from penstock.config.values import folder_of
from penstock.readers.records.files.kinds import ending
from penstock.text.formats import find


class ChatOptions(Strict):
    """The section ``chat:`` of a config.

    Attributes:
        tokenizer: Folder, model on the hub, or fast tokenizer of transformers.
        processor: Multimodal processor in place of the tokenizer: folder, model on the hub, or processor of
            transformers. It makes the placeholders of images in the text, and the tensors of images.
        tokens: Special tokens by name, in place of the tokenizer's chat template.
        formats: Modules to import for the formats that they register, also from the folder of the config.
        max_length: Maximum number of tokens per sample, and number of tokens per pack.
        train_on: Messages to train on: the assistant's, its last one, or all.
        too_long: Whether to cut or drop longer samples.
        padding: Length of rows: ``max_length`` or the longest sample; ``none`` makes one row without padding.
        pack: Whether rows are packs of samples, with ``max_length`` tokens each.
        flat: Whether all packs are one row.
        pad_to_multiple_of: Number of tokens of which the length of rows is a multiple.
        count_labels: Whether the index counts the labels of all items. Every batch then has ``global_label_tokens``,
            the number over all ranks. Packs always have it.
        holdout: Share of the records that is held out for evaluation, chosen by a hash of their ids.
        only_holdout: Whether the run uses only the records held out. Use it with ``passes: 1``.
        image_processor: Folder, model on the hub, or image processor of transformers. By default our own, which resizes
            and normalises as CLIP's.
        image_size: Height and width of images. By default 256, or that of the image processor.
        video_size: Height and width of video frames. By default likewise.
        max_video_frames: Frames per video.
        audio_sample_rate: Sample rate of sounds, in Hz.
        audio_max_length: Maximum length of a sound, in units of 10 ms.
        audio_n_mels: Bins of the log-mel spectrogram.
        use_raw_waveform: Whether sounds are waveforms. Otherwise they are log-mel spectrograms.
        allow_urls: Whether to fetch URLs in records.
        allow_private: Whether to fetch them from private addresses, too.
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
                f"pad_to_multiple_of: packs have max_length tokens, not a multiple of {self.pad_to_multiple_of}"
            )
        return self


class ChatSource(Strict):
    """The keys of an entry of ``sources`` of chat data.

    Attributes:
        dtype: Format of its records.
        path: File, folder, pattern, URL, or dataset on the Hugging Face Hub.
        config: Config of a hub dataset.
        split: Split of a hub dataset or a folder.
        revision: Revision of a hub dataset.
        limit: Maximum number of records per epoch. With packs, as many packs as hold this number on average.
        system: System message of conversations that have none.
        media_root: Local folders that paths in records may be relative to. Only files below them may be opened; by
            default, files below the folder of the record. ``/`` allows all files.
        remote: Access to a remote store.
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
        return tuple(folder_of(info) / each for each in folders)

    @model_validator(mode="after")
    def _known(self) -> "ChatSource":
        try:
            find(self.dtype)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return self


def anchored(path: str, info: ValidationInfo) -> str:
    """Return a path relative to the config's folder, if there is such a file; a name on the hub stays as it is."""
    folder = folder_of(info)
    if "://" in path or Path(path).is_absolute():
        return path
    is_file = (folder / path).exists() or bool(ending(path)) or set(path) & set("*?[")
    return str(folder / path) if is_file else path
