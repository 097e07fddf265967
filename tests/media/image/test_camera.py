import io
from typing import Any, Literal

import numpy as np
import pytest
from PIL import ExifTags, Image

from penstock.media.errors import BadMedia
from penstock.media.image.camera import camera_depth, camera_pixels
from penstock.media.image.file import MAX_PIXELS

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 9, 4), dtype=np.uint8)
RGB = Image.fromarray(PIXELS[..., :3])
MILLIMETRES = np.random.default_rng(1).integers(0, 1 << 16, (6, 9), dtype=np.uint16)


def encoded(image: Image.Image, format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def sideways() -> Image.Exif:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    return exif


@pytest.mark.parametrize("format", ["PNG", "JPEG"])
def test_a_camera_is_not_turned_by_its_exif_orientation(format: str) -> None:
    turned = encoded(RGB, format, exif=sideways())
    assert np.array_equal(camera_pixels(turned, 3), camera_pixels(encoded(RGB, format), 3))


@pytest.mark.parametrize("channels, mode", [(1, "L"), (3, "RGB"), (4, "RGBA")])
@pytest.mark.parametrize("stored", ["L", "LA", "RGB", "RGBA", "P", "1"])
def test_pixels_have_the_channels_of_the_feature_whatever_is_stored(stored: str, channels: int, mode: str) -> None:
    image = Image.fromarray(PIXELS).convert("RGB").convert(stored)
    found = camera_pixels(encoded(image, "PNG"), channels)
    assert found.shape == (6, 9, channels)
    assert found.dtype == np.uint8
    assert np.array_equal(found, np.asarray(image.convert(mode)).reshape(found.shape))


@pytest.mark.parametrize("format", ["PNG", "TIFF"])
@pytest.mark.parametrize("stored, unit, scale", [("mm", "mm", 1), ("mm", "m", 1000), (None, "m", 1)])
def test_distances_of_16_bits_are_exact(format: str, stored: str | None, unit: Literal["mm", "m"], scale: int) -> None:
    found = camera_depth(encoded(Image.fromarray(MILLIMETRES), format), stored, unit)
    assert found.dtype == np.float32
    assert np.array_equal(found, MILLIMETRES.astype(np.float32) / np.float32(scale))


def test_distances_of_floats_keep_their_bits() -> None:
    metres = np.random.default_rng(2).random((6, 9), dtype=np.float32)
    data = encoded(Image.fromarray(metres), "TIFF")
    assert np.array_equal(camera_depth(data, "m", "m"), metres)
    assert np.array_equal(camera_depth(data, "m", "mm"), metres * np.float32(1000))


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"", "is empty"),
        (b"no image", "not a JPEG"),
        (encoded(RGB, "JPEG")[:-20], "truncated"),
        (encoded(Image.new("1", (1, MAX_PIXELS + 1)), "PNG"), "pixels are decoded"),
    ],
    ids=["empty", "text", "truncated", "large"],
)
def test_a_file_that_cannot_be_decoded_is_a_bad_medium(data: bytes, reason: str) -> None:
    with pytest.raises(BadMedia, match=reason):
        camera_pixels(data, 3)
    with pytest.raises(BadMedia, match=reason):
        camera_depth(data, "mm", "m")


def test_distances_of_several_channels_are_refused() -> None:
    with pytest.raises(BadMedia, match="3 values per pixel"):
        camera_depth(encoded(RGB, "PNG"), "mm", "m")
