"""Windows around a frame, in frames of its episode, and new names of features. Pure functions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.manifest.errors import ManifestError
from penstock.plan.draws import Ints


@dataclass(frozen=True)
class Needs:
    """What a recipe reads of a frame.

    Attributes:
        deltas: Window of each key that has one, in seconds relative to the frame.
        tolerance: Maximum difference of a delta from a multiple of 1/fps, and of a frame from its time, in seconds.
    """

    deltas: Mapping[str, tuple[float, ...]]
    tolerance: float


def frame_offsets(deltas: Mapping[str, Sequence[float]], tolerance: float, fps: float, name: str) -> dict[str, Ints]:
    """Return windows in frames, by key.

    Args:
        deltas: Windows of features of the dataset, in seconds.
        tolerance: Maximum difference of a delta from a multiple of 1/fps, in seconds.
        fps: Frames per second.
        name: Name of the dataset, for messages.

    Raises:
        ManifestError: If a delta is not a number, or not a multiple of the time between two frames.
    """
    return {key: _offsets(key, own, tolerance, fps, name) for key, own in deltas.items()}


def _offsets(key: str, deltas: Sequence[float], tolerance: float, fps: float, name: str) -> Ints:
    frames = np.asarray(deltas, dtype=np.float64) * fps
    if not np.isfinite(frames).all():
        raise ManifestError(f"delta_timestamps: {key}: {deltas[int(np.isfinite(frames).argmin())]} is not a time")
    off = np.abs(frames - np.round(frames)) / fps
    if len(off) and not off.max() <= tolerance:
        worst = deltas[int(off.argmax())]
        near = round(worst * fps) / fps
        raise ManifestError(
            f"delta_timestamps: {key}: {worst:g} s is not a multiple of 1/{fps:g} s, the time between frames of "
            f"{name}, within {tolerance:g} s; the nearest is {near:g} s"
        )
    return np.round(frames).astype(np.int64)


def window(frame: int, offsets: Ints, length: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the frames of a window, and which lie outside the episode; the nearest frame replaces those.

    Args:
        frame: Number of the frame in its episode.
        offsets: Offsets of the window, in frames.
        length: Number of frames of the episode.
    """
    wanted = frame + offsets
    inside = np.minimum(np.maximum(wanted, 0), length - 1)
    return inside, wanted != inside


def new_names(features: Iterable[str], rename: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the new name of each feature.

    Args:
        features: Names of features in the dataset.
        rename: New names of some features.
        name: Name of the dataset, for messages.

    Raises:
        ManifestError: If a renamed feature does not exist, or two features would have one name.
    """
    found = {key: rename.get(key, key) for key in features}
    unknown = [key for key in rename if key not in found]
    if unknown:
        raise ManifestError(f"rename: {name} has no feature {unknown[0]!r}; it has {', '.join(found)}")
    taken = [new for new, count in Counter(found.values()).items() if count > 1]
    if taken:
        raise ManifestError(f"rename: two features of {name} would be named {taken[0]!r}")
    return found
