"""The speech pipeline: clips in tar shards -> 16 kHz crops or whole clips, W2V-BERT features and texts."""

from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import PlainValidator, ValidationInfo, field_validator, model_validator

from penstock.config import Strict, duration
from penstock.config.values import expects, folder_of
from penstock.pipelines.pipeline import Context
from penstock.pipelines.tar import TarSource, open_tar
from penstock.readers.tar.manifest import TarManifest
from penstock.readers.tar.reader import TarReader
from penstock.recipes.augmenting import Augmentation, SpecAugment, built_in
from penstock.recipes.clip_labels import ClipLabels
from penstock.recipes.speech import Speech
from penstock.recipes.whole_speech import WholeSpeech


def _crop(value: object) -> object:
    seconds = duration(value) if value != "full" else value
    if seconds == "full" or (isinstance(seconds, int | float) and 0 < seconds < float("inf")):
        return seconds
    raise ValueError(f"{value!r} is neither full nor a duration above 0, such as 6s")


def _augmentations(value: object) -> object:
    if isinstance(value, dict):
        return tuple(built_in(str(name), given) for name, given in value.items())
    if isinstance(value, list | tuple) and all(isinstance(each, Augmentation) for each in value):
        return tuple(value)
    raise ValueError(f"{value!r} is neither {{speed: [0.9, 1.0, 1.1]}} nor a list of Augmentation objects")


_FIELDS = ("wav", "length", "feats", "feats_mask", "tokens", "token_lengths")
_FACTS = ("ids", "sources", "rows", "slots", "bad", "valid", "step", "unit", "units")


class SpeechOptions(Strict):
    """The section ``speech:`` of a config.

    Attributes:
        crop: Duration of a crop, such as ``6s``. ``full`` takes whole clips, padded to the longest of a batch.
        channel: Channel to use: the first, or the mean of all.
        features: Whether to make W2V-BERT features. ``exact`` computes in float64, two to three times as slow.
        text: Whether batches have the text of each clip, from ``ID.txt``. Needs ``crop: full``, as the next three.
        text_field: Field of ``ID.json`` that holds the text, instead of ``ID.txt``.
        tokenizer: Folder, model on the hub, or tokenizer of transformers, which makes ``tokens`` of texts.
        json_fields: Other fields of ``ID.json`` that batches have, such as ``speaker``.
        augment: Augmentations of whole clips, in order: ``speed: [0.9, 1.0, 1.1]``, ``spec_augment: true``; in Python
            also a list of ``penstock.recipes.Augmentation`` objects.
    """

    crop: Annotated[Literal["full"] | float, PlainValidator(_crop)] = 6.0
    channel: Literal["first", "mean"] = "first"
    features: Annotated[bool | Literal["exact"], expects("true, false or exact")] = True
    text: bool = False
    text_field: str | None = None
    tokenizer: Any = None
    json_fields: tuple[str, ...] = ()
    augment: Annotated[tuple[Augmentation, ...], PlainValidator(_augmentations)] = ()

    @field_validator("tokenizer", mode="after")
    @classmethod
    def _anchored(cls, value: Any, info: ValidationInfo) -> Any:
        beside = folder_of(info) / value if isinstance(value, str) else None
        return str(beside) if beside and beside.exists() else value

    @model_validator(mode="after")
    def _fitting(self) -> "SpeechOptions":
        has_text = self.text or self.text_field is not None
        if self.tokenizer is not None and not has_text:
            raise ValueError("tokenizer: there is no text; set text: true (ID.txt) or text_field: NAME (of ID.json)")
        for key, given in {"text": has_text, "json_fields": self.json_fields, "augment": self.augment}.items():
            if given and self.crop != "full":
                raise ValueError(f"{key}: belongs to whole clips; set crop: full")
        own = (*_FIELDS, *_FACTS, *(["text"] if has_text else []))
        if taken := [name for name in self.json_fields if name in own]:
            raise ValueError(f"json_fields: batches have a {taken[0]} of their own; rename that field of the .json")
        if not self.features and any(isinstance(each, SpecAugment) for each in self.augment):
            raise ValueError("augment: spec_augment changes features, and features is false; remove one of them")
        return self


class SpeechPipeline:
    options = SpeechOptions
    source = TarSource

    def recipe(self, options: SpeechOptions) -> Speech | WholeSpeech:
        if options.crop != "full":
            return Speech(crop=options.crop, mix=options.channel, features=options.features)
        labels = ClipLabels(
            text=options.text,
            text_field=options.text_field,
            fields=options.json_fields,
            tokenizer=options.tokenizer,
        )
        return WholeSpeech(mix=options.channel, features=options.features, labels=labels, augment=options.augment)

    def open(self, source: TarSource, needs: Collection[str] | None, context: Context) -> tuple[TarManifest, TarReader]:
        return open_tar(source, needs, context)
