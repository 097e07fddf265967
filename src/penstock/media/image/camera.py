"""The image of a camera -> pixels or distances, as they are stored. Converts nothing but the encoding."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from penstock.media.errors import BadMedia
from penstock.media.image.file import bad_images, open_image

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_MM_PER_M = np.float32(1000)


def camera_pixels(data: bytes, channels: int) -> NDArray[np.uint8]:
    """Return the pixels of an image, shape (height, width, channels).

    Args:
        data: Content of the image file.
        channels: 1 for grey pixels, 3 for RGB, 4 for RGB and alpha.

    Raises:
        BadMedia: If it cannot be decoded.
    """
    pixels: NDArray[np.uint8] = _decoded(data, _MODES.get(channels, "RGB"))
    return pixels[..., None] if pixels.ndim == 2 else pixels


def camera_depth(data: bytes, stored: str | None, unit: Literal["mm", "m"]) -> NDArray[np.float32]:
    """Return the distances in an image of 16 bits or floats, shape (height, width).

    Args:
        data: Content of the image file.
        stored: Unit of the stored distances; None if it is not known, which leaves them unchanged.
        unit: Unit of the result.

    Raises:
        BadMedia: If it cannot be decoded, or has several channels.
    """
    found: NDArray[np.float32] = _decoded(data, None).astype(np.float32)
    if found.ndim != 2:
        raise BadMedia(f"an image of distances has {found.shape[-1]} values per pixel instead of one")
    if (stored, unit) == ("mm", "m"):
        return found / _MM_PER_M
    return found * _MM_PER_M if (stored, unit) == ("m", "mm") else found


def _decoded(data: bytes, mode: str | None) -> NDArray[Any]:
    image = open_image(data)
    with bad_images():
        return np.asarray(image if mode is None else image.convert(mode))
