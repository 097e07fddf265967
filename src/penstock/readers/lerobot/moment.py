"""Records of robot data: the values and images of one frame, and of the frames around it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.plan.draws import Ints
from penstock.readers.lerobot.images import ImageFrames
from penstock.readers.lerobot.info import Feature
from penstock.readers.mp4.clip import Clip
from penstock.readers.ranges import Ranges


class Field(NamedTuple):
    """The field of moments under a key.

    Attributes:
        kind: ``camera``, ``depth``, ``string``, or the name of a numpy type.
        shape: Shape of one value; (height, width, channels) for a camera.
        frames: Number of frames of the window; None without a window.
    """

    kind: str
    shape: tuple[int, ...]
    frames: int | None

    @property
    def is_camera(self) -> bool:
        return self.kind in ("camera", "depth")

    @classmethod
    def of(cls, feature: Feature, frames: int | None) -> "Field":
        """Return the field of a feature."""
        if feature.kind == "values":
            return cls(feature.dtype, feature.shape, frames)
        if feature.is_depth:
            return cls("depth", feature.shape, frames)
        # Frames of videos are decoded as RGB, whatever the dataset says.
        return cls("camera", (*feature.shape[:2], 3) if feature.kind == "video" else feature.shape, frames)


class VideoFrames(NamedTuple):
    """Frames of a video, in the order of a window.

    Attributes:
        clip: Episode's part of the video.
        numbers: Numbers of the frames in the clip.
        ranges: Bytes of the video.
        info: Description of the video in the dataset.
        file: Dataset and path of the video, for messages.
    """

    clip: Clip
    numbers: Ints
    ranges: Ranges
    info: Mapping[str, object]
    file: str


@dataclass(frozen=True, slots=True)
class Moment:
    """One frame, and the frames around it. Keys are those after renaming.

    Attributes:
        values: Values by key; a key with a window has one element per frame of the window.
        is_pad: Whether each frame of a window lies outside the episode, by key.
        frames: Frames of the cameras, by key.
        task: Task in words.
    """

    values: Mapping[str, Any]
    is_pad: Mapping[str, NDArray[np.bool_]]
    frames: Mapping[str, VideoFrames | ImageFrames]
    task: str
