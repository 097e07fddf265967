"""What a multimodal model takes beside tokens: pixels of all samples, kinds of tokens, positions. Knows no record.

Positions are those of multimodal rotary embeddings: of time, height and width, as Qwen2-VL counts them. A token of
text has the same position on all three axes. An image of t × h × w patches has its own positions on each axis, and the
text after it continues from the largest of them:

    text text  image, 2 × 3 patches   text
    0    1     2   2   2   2   2   2  5     time
    0    1     2   2   2   3   3   3  5     height
    0    1     2   3   4   2   3   4  5     width
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock.text.labels import Encoded, Ints
from penstock.text.rendered import Medium

if TYPE_CHECKING:
    from torch import Tensor

    from penstock.recipes.processor import Processor


class Placed(NamedTuple):
    """A sample in its row.

    Attributes:
        row: Row number.
        encoded: Tokens and labels.
        processed: Tensors that the processor made from the images; empty without images.
    """

    row: int
    encoded: Encoded
    processed: "Mapping[str, Tensor]"


def model_fields(processor: "Processor", fields: Mapping[str, Any], samples: Sequence[Placed]) -> dict[str, Any]:
    """Return the fields that a multimodal model takes beside tokens.

    Args:
        processor: Processor that made the images.
        fields: Token fields of the batch; see ``penstock.text.rows``.
        samples: All samples, in the order of the rows.
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
    """Return positions [4, B, T]: within the sample, and of time, height and width."""
    axes = np.stack([positions] * 4)
    flat = axes.reshape(4, -1)
    starts = np.flatnonzero((positions.ravel() == 0) & (sequence_ids.ravel() > 0))
    for start, (_, encoded, processed) in zip(starts.tolist(), samples, strict=True):
        grids = processed["image_grid_thw"].tolist() if processed else []
        flat[1:, start : start + len(encoded)] = rope_positions(len(encoded), encoded.media, grids, merge_size)
    return axes


def rope_positions(length: int, media: Sequence[Medium], grids: Sequence[Sequence[int]], merge_size: int) -> Ints:
    """Return the positions of the tokens of one sample, [3, length].

    Args:
        length: Number of tokens.
        media: Token range of each medium, in order.
        grids: Patches of each medium in time, height and width.
        merge_size: Patches per token, in height and in width.

    Raises:
        ValueError: If the numbers of tokens and merged patches of a medium differ.
    """
    positions = np.zeros((3, length), dtype=np.int64)
    at = 0
    position = 0
    for medium, (time, height, width) in zip(media, grids, strict=True):
        text = medium.start - at
        positions[:, at : medium.start] = position + np.arange(text)
        position += text
        shape = (time, height // merge_size, width // merge_size)
        if np.prod(shape) != medium.end - medium.start:
            raise ValueError(f"an image of {shape} patches has {medium.end - medium.start} tokens")
        positions[:, medium.start : medium.end] = position + np.indices(shape).reshape(3, -1)
        position += max(shape[1:])
        at = medium.end
    positions[:, at:] = position + np.arange(length - at)
    return positions
