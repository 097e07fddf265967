import io

import numpy as np
import pytest
from PIL import Image

from penstock.media.image.file import png_bytes


@pytest.mark.parametrize("channels, mode", [(1, "L"), (3, "RGB"), (4, "RGBA")])
def test_a_png_decodes_to_the_pixels_that_were_written(channels: int, mode: str) -> None:
    planes = np.random.default_rng(0).integers(0, 256, (channels, 7, 13), dtype=np.uint8)
    pixels = np.moveaxis(planes, 0, -1)  # not contiguous, as the frames of a batch
    read = Image.open(io.BytesIO(png_bytes(pixels)))
    assert (read.format, read.mode, read.size) == ("PNG", mode, (13, 7))
    assert np.array_equal(np.asarray(read).reshape(pixels.shape), pixels)
