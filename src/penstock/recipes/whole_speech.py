"""The speech recipe for whole clips, padded to the longest, with their texts. Knows no shard and no plan."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.media.audio.clip import EXTENSIONS, read_whole
from penstock.media.audio.waveform import RATE, Mix, Samples
from penstock.media.errors import BadMedia
from penstock.media.span import MappedSpan
from penstock.recipes.augmenting import Augmentation, Augmentations
from penstock.recipes.clip_labels import ClipLabels, LabelWork
from penstock.recipes.extras import require_packages
from penstock.recipes.file_panels import value_text
from penstock.recipes.panels import FieldPanel, Panel, TextPanel, TextPiece
from penstock.recipes.recipe import Bad, Item, PaddedRecipe, each
from penstock.recipes.speech import PACKAGES, Features, clip, clip_panel, preview_clip, segment_of, waveform_fields

_TENTHS = 10  # of a second: the unit of planned lengths
MIN_SAMPLES = RATE  # per clip: a rank's batch that is all padding still goes through a model


class WholeWork(NamedTuple):
    """A batch of whole clips while it is made.

    Attributes:
        clips: Waveform of each clip; empty for padding.
        labels: Texts and fields of the clips.
        draws: Draw of each clip.
    """

    clips: list[Samples]
    labels: LabelWork
    draws: list[int]


class WholeSpeech(PaddedRecipe):
    """Makes batches with ``wav`` [B, n], ``length`` [B] and ``feats`` [B, 1, rows, 160]; zeros after a clip's end.

    The features of a clip are computed from the clip alone, ``feature_rows(length)`` rows: padding is not in their
    mean. ``feats_mask`` [B, rows] is True for these rows.

    Args:
        mix: Channel that is used: the first, or the mean of all.
        features: Whether to compute ``feats``; ``exact`` computes them in float64.
        labels: Texts and other fields of the clips; none by default.
        augment: Augmentations of the clips, in order.
    """

    length_unit = "seconds"

    def __init__(
        self,
        *,
        mix: Mix = "first",
        features: Features = True,
        labels: ClipLabels | None = None,
        augment: Sequence[Augmentation] = (),
    ) -> None:
        self._mix = mix
        self._features = features
        self._augment = Augmentations(augment)
        self._labels = labels or ClipLabels()

    @property
    def length_key(self) -> str:
        return self._augment.key

    @property
    def needs(self) -> tuple[str, ...]:
        return (*EXTENSIONS, *self._labels.needs)

    def planned_lengths(self, lengths: NDArray[np.int64], draws: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return tenths of a second: one more than the duration, because durations of a JSON file may be rounded.

        A clip of unknown duration, which may be empty or damaged, has the least length, and is bad if it is longer.
        """
        augmented = self._augment.lengths(lengths, draws)
        return np.maximum(-(-augmented // 100) + 1, MIN_SAMPLES * _TENTHS // RATE)

    def start(self, size: int) -> WholeWork:
        require_packages("recipe: speech", "speech", *PACKAGES)
        return WholeWork([np.zeros(0, np.float32) for _ in range(size)], self._labels.start(size), [0] * size)

    def fill(self, work: WholeWork, records: Mapping[int, tuple[Item, Mapping[str, MappedSpan]]]) -> list[Bad]:
        def make(row: int, item: Item, record: Mapping[str, MappedSpan]) -> None:
            self._labels.read(work.labels, row, record)
            found = self._augment.wave(read_whole(clip(record), self._mix, segment_of(record)), item.draw)
            if item.length and len(found) * _TENTHS > item.length * RATE:
                planned = f"{len(found) / RATE:.2f} s, but at most {item.length / _TENTHS:.1f} s were planned"
                raise BadMedia(f"has {planned}: its duration in the manifest is wrong or missing")
            work.clips[row] = found
            work.draws[row] = item.draw

        return each(records, make)

    def finish(self, work: WholeWork) -> dict[str, Any]:
        length = np.array([len(clip) for clip in work.clips], dtype=np.int64)
        fields = waveform_fields(_wide(work.clips, np.zeros(MIN_SAMPLES, np.float32)), length)
        if self._features:
            from penstock.media.audio.features import feature_rows  # imports torch

            features = [
                self._augment.features(_features_of(clip, exact=self._features == "exact"), draw)
                for clip, draw in zip(work.clips, work.draws, strict=True)
            ]
            fields["feats"] = _wide(features, np.zeros((feature_rows(MIN_SAMPLES), 160), np.float32))[:, None]
            rows = np.array([len(own) for own in features])
            fields["feats_mask"] = np.arange(fields["feats"].shape[2]) < rows[:, None]
        return fields | self._labels.finish(work.labels)

    def preview(self, batch: dict[str, Any], index: int) -> Iterator[tuple[str, bytes]]:
        yield from preview_clip(batch, index)
        if "text" in batch:
            yield "txt", batch["text"][index].encode()

    def panels(self, batch: dict[str, Any], index: int) -> Iterator[Panel]:
        yield clip_panel(batch, index)
        if "text" in batch:
            yield TextPanel([TextPiece(batch["text"][index])], title="text")
        values = {name: batch[name][index] for name in self._labels.fields}
        if known := {name: value_text(value) for name, value in values.items() if value is not None}:
            yield FieldPanel(known)


def _features_of(clip: Samples, exact: bool) -> Samples:
    """Return features [rows, 160]; no rows for padding."""
    import torch

    from penstock.media.audio.features import MIN_SAMPLES, w2v_bert_features

    if not len(clip):
        return np.zeros((0, 160), np.float32)
    long_enough = torch.from_numpy(np.pad(clip, (0, max(0, MIN_SAMPLES - len(clip)))))
    precision = torch.float64 if exact else torch.float32
    features: Samples = w2v_bert_features(long_enough[None], precision)[0, 0].numpy()
    return features


def _wide(rows: list[Samples], least: Samples) -> Samples:
    """Stack rows of different lengths, with zeros after the shorter ones, at least as wide as ``least``."""
    width = max(map(len, [least, *rows]))
    wide = np.zeros((len(rows), width, *least.shape[1:]), np.float32)
    for row, filled in zip(rows, wide, strict=True):
        filled[: len(row)] = row
    return wide
