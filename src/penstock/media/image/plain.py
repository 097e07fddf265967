"""Writes PNG files without Pillow, for pictures of sounds: the speech recipe does not need Pillow."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PALETTE = 3  # colour type


def plain_png(shades: NDArray[np.uint8], colours: NDArray[np.uint8]) -> bytes:
    """Return a picture as a PNG file with a palette.

    Args:
        shades: Number of the colour of each pixel, shape (height, width).
        colours: RGB colours, shape (256, 3).
    """
    height, width = shades.shape
    head = struct.pack(">IIBBBBB", width, height, 8, _PALETTE, 0, 0, 0)
    rows = np.pad(shades, ((0, 0), (1, 0)))  # each row begins with the number of its filter: none
    parts = [(b"IHDR", head), (b"PLTE", colours.tobytes()), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")]
    return _SIGNATURE + b"".join(_chunk(name, data) for name, data in parts)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
