"""The speech recipe: a random crop of every clip at 16 kHz, and W2V-BERT's features of it."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import torch

from penstock.media.audio import RATE, read_crop
from penstock.media.errors import BadMedia
from penstock.media.features import w2v_bert_features
from penstock.media.lending import Buffers
from penstock.media.span import Slice
from penstock.media.waveform import Mix
from penstock.recipes.sample import Sample
from penstock.sources.errors import ContentError
from penstock.sources.tarsource import TarSource

AUDIO = ("wav", "flac", "mp3", "ogg", "opus")
T = TypeVar("T")


def read_clip(source: TarSource, sample: Sample, read: Callable[[Slice], T]) -> T:
    """What ``read`` makes of a sample's audio file; what it finds wrong with it is a ContentError."""
    with source.opened(sample.row) as (blob, members):
        try:
            for member in members:
                if member.ext in AUDIO:
                    source.verify(blob, sample.row, member)
                    return read(Slice(blob, member.offset, member.size))
            raise BadMedia(f"no audio: it has {', '.join(m.ext for m in members)}, none of {', '.join(AUDIO)}")
        except BadMedia as bad:
            raise ContentError(source.shard_path(sample.row), sample.id, str(bad)) from bad


class Speech:
    """``wav`` [B, n], ``length`` [B] (samples before padding), and ``feats`` [B, 1, n/320, 160] where asked for."""

    def __init__(self, source: TarSource, *, crop: float = 6.0, mix: Mix = "first", features: bool = True) -> None:
        self._source, self._mix, self._features = source, mix, features
        self._samples = round(crop * RATE)
        self._buffers = Buffers()

    def start(self, size: int) -> dict[str, Any]:
        return {"wav": self._buffers.empty((size, self._samples), np.float32), "length": np.zeros(size, dtype=np.int64)}

    def fill(self, batch: dict[str, Any], row: int, sample: Sample) -> None:
        wav, word, mix = batch["wav"][row], sample.word, self._mix
        batch["length"][row] = read_clip(self._source, sample, lambda clip: read_crop(clip, word, wav, mix))

    def finish(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        batch["wav"][batch["length"] == 0] = 0.0  # rows that stay empty
        made = {name: torch.from_numpy(array) for name, array in batch.items()}
        if self._features:
            made["feats"] = w2v_bert_features(made["wav"])
        return made
