"""What a multimodal model takes beside tokens: pixels of all samples, kinds of tokens, positions. Knows no record."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock.text.labels import Encoded, Ints
from penstock.text.rope import rope_positions

if TYPE_CHECKING:
    from penstock.recipes.processor import Processor


class Placed(NamedTuple):
    """A sample in its row.

    Attributes:
        row: the number of the row.
        encoded: its tokens.
        processed: what the processor made of its images; empty without any.
    """

    row: int
    encoded: Encoded
    processed: Mapping[str, Any]


def model_fields(processor: "Processor", fields: Mapping[str, Any], samples: Sequence[Placed]) -> dict[str, Any]:
    """Return fields of a batch.

    Args:
        processor: made the images.
        fields: the tokens of the batch; see ``penstock.text.rows``.
        samples: all samples, in the order of the rows.
    """
    found: dict[str, Any] = {}
    if processor.kinds_name is not None:
        found[processor.kinds_name] = processor.kinds(fields["input_ids"])
    merge_size = processor.merge_size
    if merge_size is not None and "position_ids" in fields:
        found["position_ids"] = _with_axes(fields["position_ids"], fields["sequence_ids"], samples, merge_size)
    seen = [sample for sample in samples if sample.processed]
    if seen:
        found |= processor.combined([sample.processed for sample in seen], [sample.row for sample in seen])
        rows = [sample.row for sample in seen for _ in sample.encoded.media]
        found["image_rows"] = np.array(rows, dtype=np.int64)
    return found


def _with_axes(positions: Ints, sequence_ids: Ints, samples: Sequence[Placed], merge_size: int) -> Ints:
    """Return [4, B, T]: the positions by which models tell samples apart, and those of time, height and width."""
    axes = np.stack([positions] * 4)
    flat = axes.reshape(4, -1)
    starts = np.flatnonzero((positions.ravel() == 0) & (sequence_ids.ravel() > 0))
    for start, (_, encoded, processed) in zip(starts.tolist(), samples, strict=True):
        grids = processed["image_grid_thw"].tolist() if processed else []
        flat[1:, start : start + len(encoded)] = rope_positions(len(encoded), encoded.media, grids, merge_size)
    return axes
