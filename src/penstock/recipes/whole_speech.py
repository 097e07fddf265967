"""Speech for evaluation: every clip in full length, batches as wide as their longest clip."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from penstock.media.audio import EXTENSIONS, read_whole
from penstock.media.features import SHORTEST, feature_rows, w2v_bert_features
from penstock.media.span import Slice
from penstock.media.waveform import RATE, Mix, Samples
from penstock.readers.errors import ContentError
from penstock.readers.tar.reader import TarSource
from penstock.recipes.clips import read_clips
from penstock.recipes.sample import Sample
from penstock.recipes.speech import Features

LEAST = RATE  # samples: a rank's batch that is all padding still goes through a model


class WholeSpeech:
    """``wav`` [B, n], ``length`` [B], and ``feats`` [B, 1, rows, 160] where asked for; zeros after a clip's end.

    A clip's features are those of the clip alone, ``feature_rows(length)`` of them: padding is not in their mean.
    """

    files = EXTENSIONS

    def __init__(self, source: TarSource, *, mix: Mix = "first", features: Features = True) -> None:
        self._source, self._mix, self._features = source, mix, features

    def start(self, size: int) -> list[Samples]:
        return [np.zeros(0, np.float32) for _ in range(size)]

    def fill(self, work: list[Samples], rows: Sequence[int], samples: Sequence[Sample]) -> dict[int, ContentError]:
        def read(row: int, clip: Slice, _: int) -> None:
            work[row] = read_whole(clip, self._mix)

        return read_clips(self._source, rows, samples, read)

    def finish(self, work: list[Samples]) -> dict[str, Any]:
        clips = [torch.from_numpy(clip) for clip in work]
        made = {"wav": _wide(clips, LEAST).numpy(), "length": np.array([len(clip) for clip in clips])}
        if self._features:
            dtype = torch.float64 if self._features == "exact" else torch.float32
            made["feats"] = _wide([_features_of(clip, dtype) for clip in clips], feature_rows(LEAST))[:, None].numpy()
        return made


def _features_of(clip: Tensor, dtype: torch.dtype) -> Tensor:
    """[rows, 160], no rows for padding."""
    if not len(clip):
        return clip.new_zeros(0, 160)
    return w2v_bert_features(pad(clip, (0, max(0, SHORTEST - len(clip))))[None], dtype)[0, 0]


def _wide(rows: list[Tensor], least: int) -> Tensor:
    """Rows of different lengths under each other, zeros after the shorter ones."""
    return pad_sequence([*rows, rows[0].new_zeros(least, *rows[0].shape[1:])], batch_first=True)[:-1]
