"""Evenly spaced frames of a record's video. Knows no batch, and no size or normalisation of a model."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from penstock.media.content import OpenLink, as_array, content, no_links
from penstock.media.errors import BadMedia
from penstock.media.image.file import bad_images, open_image
from penstock.media.image.pixels import Pixels, image_pixels, rgb
from penstock.media.video.file import evenly, file_frames

T = TypeVar("T")
MAX_PIXELS_OF_FRAME = 1 << 24  # 4096 × 4096; Pillow holds several of them
MAX_PIXELS_OF_ALL = 1 << 29  # all frames together: some seconds of decoding


def video_frames(value: Any, count: int, make: Callable[[Pixels], T], open_link: OpenLink = no_links) -> list[T]:
    """Return the results of a function for evenly spaced frames of a video.

    The function is called as soon as a frame is decoded, so that only one frame is in memory in full size.

    Args:
        value: File as in :func:`penstock.media.content.content` (MP4, MOV, MKV, WebM, AVI; GIF, WebP); a list of
            frames, each as in :func:`penstock.media.image.pixels.image_pixels`; an array [T, H, W, channels] or
            [T, channels, H, W], or a tensor; a torchcodec ``VideoDecoder``, as Hugging Face datasets return it.
        count: Number of frames to return. The last frame of a shorter video is repeated.
        make: Function to call with each frame, RGB, uint8, shape (H, W, 3).
        open_link: Function that opens paths and URLs.

    Returns:
        ``count`` results of ``make``; the same object for a repeated frame.

    Raises:
        BadMedia: If the value is not a video, is damaged or truncated, or is too large.
    """
    if value is None:
        raise BadMedia("the record has no video")
    if hasattr(value, "get_frame_at"):
        return _each(len(value), count, lambda index: make(image_pixels(_decoded(value, index))))
    frames = value if isinstance(value, list | tuple) else as_array(value)
    if frames is None:
        return _of_file(content(value, open_link), count, make)
    if isinstance(frames, np.ndarray) and frames.ndim != 4:
        raise BadMedia(f"a video has 4 dimensions, not the shape {list(frames.shape)}")
    return _each(len(frames), count, lambda index: make(image_pixels(value[index], open_link)))


def _each(total: int, count: int, make: Callable[[int], T]) -> list[T]:
    if total < 1:
        raise BadMedia("the video has no frames")
    wanted = evenly(total, count)
    made = {index: make(index) for index in dict.fromkeys(wanted)}
    return [made[index] for index in wanted]


def _decoded(decoder: Any, index: int) -> Any:
    try:
        return decoder.get_frame_at(index).data
    except RuntimeError as error:
        raise BadMedia(f"torchcodec cannot decode frame {index} of the video: {error}") from error


def _of_file(data: bytes, count: int, make: Callable[[Pixels], T]) -> list[T]:
    animated = data.startswith(b"GIF8") or data[8:12] == b"WEBP"
    return animation_frames(data, count, make) if animated else file_frames(data, count, make)


def animation_frames(data: bytes, count: int, make: Callable[[Pixels], T]) -> list[T]:
    """Return the results of a function for evenly spaced frames of an animation. A still image has one frame.

    Args:
        data: Content of a GIF or WebP file.
        count: Number of frames to return. The last frame of a shorter animation is repeated.
        make: Function to call with each frame, RGB.

    Raises:
        BadMedia: If it is not an image, is damaged or truncated, or is too large.
    """
    image = open_image(data)
    width, height = image.size
    with bad_images():
        total: int = getattr(image, "n_frames", 1)
    if width * height > MAX_PIXELS_OF_FRAME or total * width * height > MAX_PIXELS_OF_ALL:
        most = f"up to {MAX_PIXELS_OF_FRAME:,} pixels per frame and {MAX_PIXELS_OF_ALL:,} in all are decoded"
        raise BadMedia(f"the animation has {total} frames of {width} × {height}; {most}")
    wanted = evenly(total, count)
    made: dict[int, T] = {}
    for index in dict.fromkeys(wanted):
        with bad_images():
            image.seek(index)
            pixels = rgb(image)
        made[index] = make(pixels)
    return [made[index] for index in wanted]
