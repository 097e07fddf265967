"""The speech recipe: a random crop of every clip at 16 kHz, and its W2V-BERT features. Knows no shard and no plan.

``docs/extending.md`` tells how to add a field to its batches.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from penstock.media.audio.clip import EXTENSIONS
from penstock.media.audio.crops import Crops
from penstock.media.audio.waveform import RATE, Mix, Samples
from penstock.media.errors import BadMedia
from penstock.media.span import MappedSpan
from penstock.recipes.extras import require_packages
from penstock.recipes.panels import Panel, SoundPanel
from penstock.recipes.recipe import Bad, Item, each
from penstock.runtime.lending import Buffers

Features = bool | Literal["exact"]
DECODERS = ("miniaudio", "soundfile", "soxr")
PACKAGES = ("torch", *DECODERS)


class Speech:
    """Makes batches with ``wav`` [B, n], ``length`` [B] (samples before padding) and ``feats`` [B, 1, n/320, 160].

    Args:
        crop: Seconds per crop. A shorter clip is padded with zeros.
        mix: Channel that is used: the first, or the mean of all.
        features: Whether to compute ``feats``; ``exact`` computes them in float64.
    """

    needs = EXTENSIONS

    def __init__(self, *, crop: float = 6.0, mix: Mix = "first", features: Features = True) -> None:
        self._crop = crop
        self._mix = mix
        self._features = features
        self._buffers = Buffers()
        self._feature_buffers = Buffers()

    def start(self, size: int) -> Crops:
        require_packages("recipe: speech", "speech", *PACKAGES)
        return Crops(self._buffers.empty((size, round(self._crop * RATE)), np.float32), self._mix)

    def fill(self, work: Crops, records: Mapping[int, tuple[Item, Mapping[str, MappedSpan]]]) -> list[Bad]:
        def make(row: int, item: Item, record: Mapping[str, MappedSpan]) -> None:
            if segment_of(record) is not None:
                raise BadMedia("is a segment of a recording, and crops are of whole recordings; set crop: full")
            work.read(row, clip(record), item.draw)

        bad = each(records, make)
        return bad + [Bad(row, str(error)) for row, error in work.settle().items()]

    def finish(self, work: Crops) -> dict[str, Any]:
        work.finish()
        fields = waveform_fields(work.wav, work.length)
        if self._features:
            fields["feats"] = self._feats(work.wav)
        return fields

    def _feats(self, wav: Samples) -> Samples:
        import torch  # not needed for batches without features

        from penstock.media.audio.features import feature_shape, w2v_bert_features

        feats = self._feature_buffers.empty(feature_shape(*wav.shape), np.float32)
        precision = torch.float64 if self._features == "exact" else torch.float32
        w2v_bert_features(torch.from_numpy(wav), precision, out=torch.from_numpy(feats))
        return feats

    def preview(self, batch: dict[str, Any], index: int) -> Iterable[tuple[str, bytes]]:
        return preview_clip(batch, index)

    def panels(self, batch: dict[str, Any], index: int) -> Iterable[Panel]:
        return [clip_panel(batch, index)]


def waveform_fields(wav: Samples, length: NDArray[np.int64]) -> dict[str, Any]:
    """Return the fields that follow from waveforms, for crops and whole clips alike.

    Args:
        wav: Waveforms at 16 kHz, shape [B, n]; zeros after the end of a clip.
        length: Samples per clip before padding, shape [B]; 0 for a row that is padding.
    """
    return {"wav": wav, "length": length}


def clip(record: Mapping[str, MappedSpan]) -> MappedSpan:
    """Return the first audio file of a record.

    Raises:
        BadMedia: If it has none.
    """
    audio = next((file for extension, file in record.items() if extension in EXTENSIONS), None)
    if audio is None:
        raise BadMedia(f"has {', '.join(record)}, and no audio file")
    return audio


def segment_of(record: Mapping[str, MappedSpan]) -> tuple[float, float] | None:
    """Return start and duration of the clip in its audio file, in seconds; None if it is the whole file."""
    found: tuple[float, float] | None = getattr(record.get("json"), "segment", None)
    return found


def preview_clip(batch: dict[str, Any], index: int) -> Iterable[tuple[str, bytes]]:
    """Yield the waveform of one sample as a WAV file, without padding."""
    from penstock.media.audio.wav import wav_bytes

    yield "wav", wav_bytes(_unpadded(batch, index), RATE)


def clip_panel(batch: dict[str, Any], index: int) -> SoundPanel:
    """Return one sample as a sound, without padding."""
    samples = _unpadded(batch, index)
    width = batch["wav"].shape[1]
    padding = f", then {(width - len(samples)) / RATE:.2f} s of padding" if len(samples) < width else ""
    return SoundPanel(samples, RATE, title=f"{len(samples) / RATE:.2f} s{padding}")


def _unpadded(batch: dict[str, Any], index: int) -> Samples:
    return np.asarray(batch["wav"][index][: int(batch["length"][index])])
