"""Image files in memory, opened by Pillow within limits, and written. Knows nothing of records and of cameras.

Of Pillow's forty formats, one runs another program, and some are rarely used and so rarely checked. Only the formats
below are opened, whatever the name of the file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from penstock.media.errors import BadMedia

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")
MAX_PIXELS = 1 << 26  # 8192 × 8192: 200 MB as RGB
_EXACT_PIXELS = 64  # on a side: a picture of icons or digits, which JPEG would blur
_JPEG_QUALITY = 82


def open_image(data: bytes) -> Image.Image:
    """Open an image file. Its header is read and checked, its pixels are not decoded yet.

    Raises:
        BadMedia: If it is not an image, or larger than ``MAX_PIXELS``.
    """
    if not data:
        raise BadMedia("the image file is empty")
    with bad_images():
        try:
            image = Image.open(BytesIO(data), formats=FORMATS)
        except UnidentifiedImageError:
            raise BadMedia(f"not a {', '.join(FORMATS)} image: {len(data):,} bytes of something else") from None
        check_size(*image.size)
        return image


def check_size(width: int, height: int) -> None:
    """Raise :class:`BadMedia` for implausible sizes, before memory is allocated for them."""
    if width < 1 or height < 1:
        raise BadMedia(f"the image has no pixels: it is {width} × {height}")
    if width * height > MAX_PIXELS:
        most = f"up to {MAX_PIXELS:,} pixels are decoded"
        raise BadMedia(f"the image is {width} × {height}; {most}", f"the image is too large; {most}")


@contextmanager
def bad_images() -> Iterator[None]:
    """Convert Pillow's errors for damaged files into :class:`BadMedia`.

    Its decoders raise errors of many kinds. The bytes are in memory, so none of them is an I/O error.
    """
    try:
        yield
    except (BadMedia, MemoryError):
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise BadMedia(f"the image is too large: {error}") from None
    except ValueError as error:  # its text may show bytes of a file that is no image
        raise BadMedia("the image cannot be decoded: it holds a value that is not valid") from error
    except Exception as error:
        raise BadMedia(f"the image cannot be decoded: {error or type(error).__name__}") from error


def png_bytes(pixels: NDArray[np.uint8]) -> bytes:
    """Return an image as a PNG file.

    Args:
        pixels: Grey, RGB or RGBA image, shape (height, width, channels) with 1, 3 or 4 channels.
    """
    file = BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(file, "PNG")
    return file.getvalue()


def thumbnail_bytes(pixels: NDArray[np.uint8], side: int) -> tuple[str, bytes]:
    """Return a small image file, and its MIME type.

    Args:
        pixels: Grey or RGB image, shape (height, width, channels) with 1 or 3 channels.
        side: Maximum width and height. A smaller image keeps its size and, up to 64 pixels, every pixel.
    """
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    if max(image.size) <= _EXACT_PIXELS:
        return "image/png", png_bytes(pixels)
    image.thumbnail((side, side))
    file = BytesIO()
    image.save(file, "JPEG", quality=_JPEG_QUALITY)
    return "image/jpeg", file.getvalue()
