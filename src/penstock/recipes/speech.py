"""The speech recipe: a random crop of every clip at 16 kHz, and W2V-BERT's features of it."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from penstock.media.audio import EXTENSIONS
from penstock.media.crops import Crops
from penstock.media.waveform import RATE, Mix
from penstock.readers.errors import ContentError
from penstock.readers.tar.reader import TarSource
from penstock.recipes.clips import bad_clip, read_clips
from penstock.recipes.sample import Sample
from penstock.runtime.lending import Buffers

Features = bool | Literal["exact"]


class Speech:
    """``wav`` [B, n], ``length`` [B] (samples before padding), and ``feats`` [B, 1, n/320, 160] where asked for."""

    files = EXTENSIONS

    def __init__(self, source: TarSource, *, crop: float = 6.0, mix: Mix = "first", features: Features = True) -> None:
        self._source, self._mix, self._features = source, mix, features
        self._samples = round(crop * RATE)
        self._buffers, self._feature_buffers = Buffers(), Buffers()

    def start(self, size: int) -> Crops:
        return Crops(self._buffers.empty((size, self._samples), np.float32), self._mix)

    def fill(self, work: Crops, rows: Sequence[int], samples: Sequence[Sample]) -> dict[int, ContentError]:
        bad = read_clips(self._source, rows, samples, work.read)
        for row, error in work.settle().items():
            bad[row] = bad_clip(self._source, samples[rows.index(row)], error)
        return bad

    def finish(self, work: Crops) -> dict[str, Any]:
        work.finish()
        made = {"wav": work.wav, "length": work.length}
        if self._features:
            import torch  # batches without features are made without it

            from penstock.media.features import feature_shape, w2v_bert_features

            feats = made["feats"] = self._feature_buffers.empty(feature_shape(*work.wav.shape), np.float32)
            dtype = torch.float64 if self._features == "exact" else torch.float32
            w2v_bert_features(torch.from_numpy(work.wav), dtype, out=torch.from_numpy(feats))
        return made
