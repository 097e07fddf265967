"""The speech recipe: a random crop of every clip at 16 kHz, and W2V-BERT's features of it."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from penstock.media.audio import EXTENSIONS
from penstock.media.crops import Crops
from penstock.media.errors import BadMedia
from penstock.media.lending import Buffers
from penstock.media.span import Slice
from penstock.media.waveform import RATE, Mix
from penstock.recipes.sample import Sample
from penstock.sources.errors import ContentError
from penstock.sources.tarsource import TarSource

T = TypeVar("T")


def read_clip(source: TarSource, sample: Sample, read: Callable[[Slice], T]) -> T:
    """What ``read`` makes of a sample's audio file; what it finds wrong with it is a ContentError."""
    blob, members = source.open(sample.row)
    try:
        for member in members:
            if member.ext in EXTENSIONS:
                source.verify(blob, sample.row, member)
                return read(Slice(blob, member.offset, member.size))
        raise BadMedia(f"no audio: it has {', '.join(m.ext for m in members)}, none of {', '.join(EXTENSIONS)}")
    except BadMedia as bad:
        raise ContentError(source.shard_path(sample.row), sample.id, str(bad)) from bad


class Speech:
    """``wav`` [B, n], ``length`` [B] (samples before padding), and ``feats`` [B, 1, n/320, 160] where asked for."""

    def __init__(self, source: TarSource, *, crop: float = 6.0, mix: Mix = "first", features: bool = True) -> None:
        self._source, self._mix, self._features = source, mix, features
        self._samples = round(crop * RATE)
        self._buffers, self._feature_buffers = Buffers(), Buffers()

    def start(self, size: int) -> Crops:
        return Crops(self._buffers.empty((size, self._samples), np.float32), self._mix)

    def fill(self, work: Crops, row: int, sample: Sample) -> None:
        read_clip(self._source, sample, lambda clip: work.read(row, clip, sample.word))

    def finish(self, work: Crops) -> dict[str, Any]:
        work.finish()
        made = {"wav": work.wav, "length": work.length}
        if self._features:
            import torch  # batches without features are made without it

            from penstock.media.features import feature_shape, w2v_bert_features

            feats = made["feats"] = self._feature_buffers.empty(feature_shape(*work.wav.shape), np.float32)
            w2v_bert_features(torch.from_numpy(work.wav), out=torch.from_numpy(feats))
        return made
