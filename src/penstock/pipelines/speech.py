"""The speech pipeline: clips in tar shards -> 16 kHz crops and W2V-BERT features."""

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import PlainValidator

from penstock.config import Strict, duration
from penstock.pipelines.pipeline import Context
from penstock.pipelines.tar import TarSource, open_tar
from penstock.readers.tar.manifest import TarManifest
from penstock.readers.tar.reader import TarReader
from penstock.recipes.speech import Speech
from penstock.recipes.whole_speech import WholeSpeech


def _crop(value: object) -> object:
    seconds = duration(value) if value != "full" else value
    if seconds == "full" or (isinstance(seconds, int | float) and 0 < seconds < float("inf")):
        return seconds
    raise ValueError(f"{value!r} is neither full nor a duration above 0, such as 6s")


class SpeechOptions(Strict):
    """The section ``speech:`` of a config.

    Attributes:
        crop: Duration of a crop, such as ``6s``. ``full`` takes whole clips, padded to the longest of a batch.
        channel: Channel to use: the first, or the mean of all.
        features: Whether to make W2V-BERT features. ``exact`` computes in float64, two to three times as slow.
    """

    crop: Annotated[Literal["full"] | float, PlainValidator(_crop)] = 6.0
    channel: Literal["first", "mean"] = "first"
    features: bool | Literal["exact"] = True


class SpeechPipeline:
    options = SpeechOptions
    source = TarSource

    def recipe(self, options: SpeechOptions) -> Speech | WholeSpeech:
        if options.crop == "full":
            return WholeSpeech(mix=options.channel, features=options.features)
        return Speech(crop=options.crop, mix=options.channel, features=options.features)

    def open(self, source: TarSource, needs: Collection[str] | None, context: Context) -> tuple[TarManifest, TarReader]:
        return open_tar(source, needs, context)
