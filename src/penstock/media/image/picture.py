"""One encoded image -> pixels or distances, as they are stored. Converts nothing but the encoding."""

import io
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from penstock.media.errors import BadMedia

_FORMATS = ("PNG", "JPEG", "WEBP", "TIFF")
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_MM_PER_M = np.float32(1000)


def picture_pixels(data: bytes, channels: int) -> NDArray[np.uint8]:
    """Return the pixels of an image, of shape (height, width, channels).

    Args:
        data: the image.
        channels: 1 for grey pixels, 3 for RGB, 4 for RGB and alpha.

    Raises:
        BadMedia: If it can't be decoded.
    """
    pixels: NDArray[np.uint8] = _decoded(data, _MODES.get(channels, "RGB"))
    return pixels[..., None] if pixels.ndim == 2 else pixels


def picture_depth(data: bytes, stored: str | None, unit: Literal["mm", "m"]) -> NDArray[np.float32]:
    """Return the distances of an image of 16 bits or floats, of shape (height, width).

    Args:
        data: the image.
        stored: the unit in which distances are stored; None if that is not known, and distances stay as they are.
        unit: of the result.

    Raises:
        BadMedia: If it can't be decoded.
    """
    found: NDArray[np.float32] = _decoded(data, None).astype(np.float32)
    if found.ndim != 2:
        raise BadMedia(f"an image of distances has {found.shape[-1]} values per pixel instead of one")
    if (stored, unit) == ("mm", "m"):
        return found / _MM_PER_M
    return found * _MM_PER_M if (stored, unit) == ("m", "mm") else found


def _decoded(data: bytes, mode: str | None) -> NDArray[Any]:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            return np.asarray(image if mode is None else image.convert(mode))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise BadMedia(f"an image can't be decoded: {error}") from None
