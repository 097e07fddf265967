"""Positions for multimodal rotary embeddings: of time, height and width, as Qwen2-VL counts them. numpy only.

A token of text has the same position on all three axes. An image of t × h × w patches has its own positions on each
axis, and what follows it goes on after the largest of them:

    text text  image, 2 × 3 patches   text
    0    1     2   2   2   2   2   2  5     time
    0    1     2   2   2   3   3   3  5     height
    0    1     2   3   4   2   3   4  5     width
"""

from collections.abc import Sequence

import numpy as np

from penstock.plan.draws import Ints
from penstock.text.rendered import Medium


def rope_positions(length: int, media: Sequence[Medium], grids: Sequence[Sequence[int]], merge_size: int) -> Ints:
    """Return the positions of the tokens of one sample, [3, length].

    Args:
        length: tokens of the sample.
        media: the tokens that stand for each medium, in order.
        grids: patches of each medium: time, height, width.
        merge_size: so many patches in height, and in width, make one token.

    Raises:
        ValueError: If a medium has another number of tokens than patches.
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
