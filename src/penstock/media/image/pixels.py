"""An image of a record as an RGB array. Knows no batch and no model's size or normalisation."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, ImageOps
from PIL.Image import Image

from penstock.media.content import OpenLink, as_array, content, no_links
from penstock.media.errors import BadMedia
from penstock.media.image.file import bad_images, check_size, open_image

Pixels = NDArray[np.uint8]
"""RGB: an image [height, width, 3], or several [n, height, width, 3]."""

SIXTEEN_BIT = ("I;16", "I;16L", "I;16B", "I;16N", "I")  # modes of Pillow
CHANNELS = (1, 2, 3, 4)  # grey, grey and alpha, RGB, RGBA
TURNED_SIDEWAYS = (5, 6, 7, 8)  # EXIF orientations that swap height and width
FLOAT_SLACK = 1 / 255  # how far beyond 0 to 1 a float may be: interpolation overshoots


def image_pixels(value: object, open_link: OpenLink = no_links) -> Pixels:
    """Return an image as RGB.

    Files and PIL images are turned upright by their EXIF orientation. They become RGB as by Pillow's
    ``convert("RGB")``, as in transformers: alpha is dropped, not blended with a background. 16-bit values are scaled to
    8 bits. Only the first frame of an animation is returned.

    Args:
        value: File as in :func:`penstock.media.content.content`; a PIL image; an array, a tensor or nested lists.
            Arrays are [H, W], [H, W, channels] or [channels, H, W] with 1 to 4 channels; where both places fit, the
            channels of an array are last and those of a tensor first. Integers are 0 to 255, uint16 0 to 65535, floats
            0 to 1.
        open_link: Function that opens paths and URLs.

    Returns:
        Pixels, uint8, shape (H, W, 3), writable.

    Raises:
        BadMedia: If the value is not an image, is damaged or truncated, or is too large.
    """
    if value is None:
        raise BadMedia("the record has no image")
    if isinstance(value, Image):
        return _of_pil(value)
    array = as_array(value)
    if array is not None:
        return _of_array(array, channels_first=hasattr(value, "detach"))
    return _of_pil(open_image(content(value, open_link)))


def image_size(value: object, open_link: OpenLink = no_links) -> tuple[int, int]:
    """Return height and width as ``image_pixels`` would return them. Reads only the header of a file.

    Raises:
        BadMedia: If the value is not an image, or is too large.
    """
    if value is None or hasattr(value, "detach") or isinstance(value, np.ndarray | list | tuple):
        height, width, _ = image_pixels(value, open_link).shape
        return height, width
    image = value if isinstance(value, Image) else open_image(content(value, open_link))
    with bad_images():
        width, height = image.size
        check_size(width, height)
        return (width, height) if _orientation(image) in TURNED_SIDEWAYS else (height, width)


def rgb(image: Image) -> Pixels:
    """Return the current frame of a PIL image as RGB."""
    if image.mode in SIXTEEN_BIT or image.mode == "F":  # Pillow would clip them to 255
        return _of_array(np.asarray(image), channels_first=False, sixteen_bit=image.mode != "F")
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


def _of_pil(image: Image) -> Pixels:
    with bad_images():
        check_size(*image.size)
        image.load()
        return rgb(_upright(image))


def _upright(image: Image) -> Image:
    try:
        return ImageOps.exif_transpose(image) if _orientation(image) != 1 else image
    except Exception:  # damaged EXIF data; the pixels were decoded and are good
        return image


def _orientation(image: Image) -> int:
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # damaged EXIF data
        return 1


def _of_array(array: NDArray[Any], channels_first: bool, sixteen_bit: bool = False) -> Pixels:
    if array.ndim not in (2, 3):
        raise BadMedia(f"an image has 2 or 3 dimensions, not the shape {list(array.shape)}")
    planes = array[:, :, None] if array.ndim == 2 else array
    if array.ndim == 3 and _channel_axis(array.shape, channels_first) == 0:
        planes = array.transpose(1, 2, 0)
    height, width, channels = planes.shape
    check_size(width, height)
    octets = _eight_bit(planes, sixteen_bit)
    # 1 or 2 channels: grey, repeated. 3 or 4: RGB. Alpha is dropped.
    return np.repeat(octets[:, :, :1], 3, axis=2) if channels < 3 else np.array(octets[:, :, :3], order="C")


def _channel_axis(shape: tuple[int, ...], channels_first: bool) -> int:
    fitting = [axis for axis in ((0, 2) if channels_first else (2, 0)) if shape[axis] in CHANNELS]
    if not fitting:
        raise BadMedia(f"an image has 1 to 4 channels, first or last; this one has the shape {list(shape)}")
    return fitting[0]


def _eight_bit(values: NDArray[Any], sixteen_bit: bool) -> Pixels:
    if values.dtype == np.uint8:
        return values
    if values.dtype.kind == "b":
        scaled = values * 255
    elif values.dtype.kind == "f":
        if not (values.min() >= -FLOAT_SLACK and values.max() <= 1 + FLOAT_SLACK):  # also true of NaN
            raise BadMedia(f"floats of an image are 0 to 1; these are {values.min():g} to {values.max():g}")
        scaled = np.rint(np.clip(values, 0, 1) * 255)
    elif values.dtype.kind in "iu":
        scaled = _scaled(values, 65_535 if sixteen_bit or values.dtype == np.uint16 else 255)
    else:
        raise BadMedia(f"an image of {values.dtype} cannot be read: its values must be integers or floats")
    octets: Pixels = scaled.astype(np.uint8)
    return octets


def _scaled(values: NDArray[Any], white: int) -> NDArray[Any]:
    if values.min() < 0 or values.max() > white:
        raise BadMedia(f"integers of an image are 0 to {white}; these are {values.min()} to {values.max()}")
    return values if white == 255 else (values.astype(np.uint32) * 255 + white // 2) // white  # rounded
