"""Which frames of a video are taken. Integers only."""

import numpy as np


def evenly(total: int, count: int) -> list[int]:
    """Return which frames of a video are taken: from the first to the last at equal distances, rounded down.

    A video with fewer frames is taken whole, and its last frame is repeated.

    Args:
        total: how many frames the video has, 1 or more.
        count: how many frames to take.
    """
    if total < count:
        return [*range(total), *[total - 1] * (count - total)]
    chosen: list[int] = np.linspace(0, total - 1, count, dtype=np.int64).tolist()
    return chosen
