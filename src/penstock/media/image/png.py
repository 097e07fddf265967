"""An image as a PNG file, for people to look at. Writes; does not read."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"\x89PNG\r\n\x1a\n"
_COLORS = {1: 0, 3: 2, 4: 6}  # channels -> grey, RGB, RGBA


def png_bytes(pixels: NDArray[np.uint8]) -> bytes:
    """Return a PNG file.

    Args:
        pixels: of shape (height, width, channels), with 1, 3 or 4 channels.
    """
    height, width, channels = pixels.shape
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # a line begins with the number of its filter: 0, none
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, _COLORS[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    return _MAGIC + b"".join(map(_chunk, *zip(*chunks, strict=True)))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
