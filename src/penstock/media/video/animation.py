"""The frames of an animated GIF or WebP, through Pillow, which composes each frame from those before it."""

from collections.abc import Callable
from typing import TypeVar

from penstock.media.errors import BadMedia
from penstock.media.image.file import bad_images, open_image
from penstock.media.image.pixels import rgb
from penstock.media.pixels import Pixels
from penstock.media.video.evenly import evenly

T = TypeVar("T")
MAX_PIXELS_OF_FRAME = 1 << 24  # 4096 × 4096; Pillow holds several of them
MAX_PIXELS_OF_ALL = 1 << 29  # of all frames together: some seconds of decoding


def animation_frames(data: bytes, count: int, make: Callable[[Pixels], T]) -> list[T]:
    """Return what is made of evenly spaced frames of an animation, in one pass. A still image is a video of one frame.

    Args:
        data: the bytes of a GIF or WebP file.
        count: how many frames to take. Of a shorter animation, the last frame is repeated.
        make: called with each frame, RGB.

    Raises:
        BadMedia: If it is no image, is damaged or truncated, or is too large.
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
