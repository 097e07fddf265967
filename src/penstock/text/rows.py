"""Encoded samples -> the rows of a batch: padded, padding-free or packed. numpy only; knows no tokenizer.

    padded   A A A . .        padding-free   A A A B B C C C C D D        packed   A A A B B .
             B B . . .                                                             C C C C D D
             C C C C .
             D D . . .

Labels are not shifted; models shift them. The first token of a sample never has a label: in a packed or padding-free
row it would be predicted from the last token of the sample before it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.text.labels import NO_LABEL, Encoded, Ints

Fields = dict[str, Any]


def padded(
    samples: Sequence[Encoded], pad_id: int, *, length: int | None = None, pad_to_multiple_of: int = 1
) -> Fields:
    """Return one row per sample, padded on the right.

    Args:
        samples: Encoded samples.
        pad_id: Token id of padding. A trained token may have the same id: padding never has a label.
        length: Row length; None for that of the longest sample. At least 1, so that a batch of padding alone still goes
            through a model.
        pad_to_multiple_of: Multiple that the row length is rounded up to.

    Returns:
        ``input_ids``, ``attention_mask`` and ``labels`` [B, T]; ``loss_weights`` [B, T] if a weight is neither 0 nor 1;
        ``label_tokens``, the number of trained tokens.
    """
    longest = max([1, *map(len, samples)]) if length is None else length
    rows = _Rows([[sample] for sample in samples], _rounded(longest, pad_to_multiple_of), pad_id)
    lengths = np.array([len(sample) for sample in samples], dtype=np.int64)
    mask = np.arange(rows.length) < lengths[:, None]
    return {**rows.tokens(), "attention_mask": mask.astype(np.int64)}


def padding_free(samples: Sequence[Encoded], pad_id: int = 0, *, pad_to_multiple_of: int = 1) -> Fields:
    """Return one row with all samples concatenated; without any, one token of padding.

    Args:
        samples: Encoded samples.
        pad_id: Token id of padding.
        pad_to_multiple_of: Multiple that the row length is rounded up to.

    Returns:
        Fields of ``packed``, for one row.
    """
    length = _rounded(max(1, sum(map(len, samples))), pad_to_multiple_of)
    return packed([samples], pad_id, length=length)


def packed(packs: Sequence[Sequence[Encoded]], pad_id: int, *, length: int, flat: bool = False) -> Fields:
    """Return one row per pack: its samples concatenated, then padding.

    There is no ``attention_mask``. Models of transformers see where the next sample begins by ``position_ids`` that
    start again, if they get no mask and ``use_cache=False``, which its Trainer sets. With flash attention this works
    in one flat row only.

    Args:
        packs: Encoded samples of each row.
        pad_id: Token id of padding.
        length: Row length.
        flat: Whether all rows become one, [1, B * T].

    Returns:
        ``input_ids`` and ``labels`` [B, T]. ``position_ids`` [B, T]: from 0 in every sample, and in the padding.
        ``sequence_ids`` [B, T]: 1 in the first sample of a row, 2 in the second, 0 in the padding. ``cu_seqlens``,
        int32: start of each sample in the concatenated rows, and the end; the padding of a row counts as a
        sample. ``max_seqlen``: the length of the longest of them. ``loss_weights``, ``label_tokens``: as in ``padded``.

    Raises:
        ValueError: If the samples of a pack are longer than a row.
    """
    rows = _Rows(packs, length, pad_id)
    position_ids, sequence_ids = _numbered(packs, length)
    starts = np.flatnonzero(position_ids.ravel() == 0)
    cu_seqlens = np.append(starts, position_ids.size).astype(np.int32)
    fields = {**rows.tokens(), "position_ids": position_ids, "sequence_ids": sequence_ids}
    if flat:
        fields = {name: value.reshape(1, -1) if np.ndim(value) == 2 else value for name, value in fields.items()}
    return {**fields, "cu_seqlens": cu_seqlens, "max_seqlen": int(np.diff(cu_seqlens).max(initial=0))}


class _Rows:
    """Arrays [B, T], filled with the samples of each row."""

    def __init__(self, rows: Sequence[Sequence[Encoded]], length: int, pad_id: int) -> None:
        shape = (len(rows), length)
        self.length = length
        weighted = any(sample.loss_weights is not None for row in rows for sample in row)
        self.input_ids = np.full(shape, pad_id, dtype=np.int64)
        self.labels = np.full(shape, NO_LABEL, dtype=np.int64)
        self.loss_weights = np.zeros(shape, dtype=np.float32) if weighted else None
        for number, samples in enumerate(rows):
            self._fill(number, samples)

    def _fill(self, row: int, samples: Sequence[Encoded]) -> None:
        if sum(map(len, samples)) > self.length:
            raise ValueError(f"row {row} has {sum(map(len, samples))} tokens; the rows are {self.length} long")
        at = 0
        for sample in samples:
            here = slice(at, at + len(sample))
            self.input_ids[row, here] = sample.input_ids
            self.labels[row, here] = sample.labels
            self.labels[row, at : at + 1] = NO_LABEL
            if self.loss_weights is not None:
                trained = self.labels[row, here] != NO_LABEL
                self.loss_weights[row, here] = trained if sample.loss_weights is None else sample.loss_weights * trained
            at = here.stop

    def tokens(self) -> Fields:
        fields = {
            "input_ids": self.input_ids,
            "labels": self.labels,
            "label_tokens": int(np.count_nonzero(self.labels != NO_LABEL)),
        }
        return fields if self.loss_weights is None else {**fields, "loss_weights": self.loss_weights}


def _numbered(rows: Sequence[Sequence[Encoded]], length: int) -> tuple[Ints, Ints]:
    """Return ``position_ids`` and ``sequence_ids``."""
    position_ids = np.zeros((len(rows), length), dtype=np.int64)
    sequence_ids = np.zeros((len(rows), length), dtype=np.int64)
    for row, samples in enumerate(rows):
        at = 0
        for number, sample in enumerate(samples, 1):
            position_ids[row, at : at + len(sample)] = np.arange(len(sample))
            sequence_ids[row, at : at + len(sample)] = number
            at += len(sample)
        position_ids[row, at:] = np.arange(length - at)
    return position_ids, sequence_ids


def _rounded(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple
