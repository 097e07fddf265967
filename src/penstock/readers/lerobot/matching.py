"""Rows of an episode and the frames of a video that belong to them: found once per episode, not once per sample."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.plan.draws import Ints
from penstock.readers.mp4.clip import Clip


@dataclass(frozen=True)
class Matched:
    """The frame of a video that belongs to each row of an episode.

    Attributes:
        clip: the episode's part of the video.
        seconds: when the frame of each row should be shown.
        numbers: the frame of the clip that is shown nearest to that, of each row.
        off: how far from it, in seconds.
        is_near: whether that is within the tolerance, and the time of the row that of its frame.
        all_near: whether all of them are.
    """

    clip: Clip
    seconds: NDArray[np.float64]
    numbers: Ints
    off: NDArray[np.float64]
    is_near: NDArray[np.bool_]
    all_near: bool


def match(clip: Clip, begin: float, times: NDArray[np.float32], fps: float, tolerance: float) -> Matched:
    """Find the frames of a clip, which must have some.

    Args:
        clip: the episode's part of a video.
        begin: when the episode begins in the video, in seconds.
        times: of the rows, from the beginning of the episode.
        fps: rows per second.
        tolerance: seconds that a frame may be off its time.
    """
    seconds = times.astype(np.float64) + begin
    numbers, off = clip.nearest(seconds)
    # Times are stored with 24 bits: in long episodes these alone may be off by more than the tolerance.
    is_near = (off <= tolerance) | (off <= tolerance + np.spacing(times))
    is_near &= lateness(times, fps) <= tolerance
    return Matched(clip, seconds, numbers, off, is_near, bool(is_near.all()))


def lateness(times: NDArray[np.float32], fps: float) -> NDArray[np.float64]:
    """Return how far rows are off the times of their frames, in seconds, beyond the steps of their 24 bits."""
    return np.abs(times.astype(np.float64) - np.arange(len(times)) / fps) - np.spacing(times)
