import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from PIL import Image, ImageOps

from penstock.media.errors import BadMedia
from penstock.media.image.file import FORMATS, MAX_PIXELS
from penstock.media.image.pixels import image_pixels
from tests.media.movies import PHOTOS, picture, saved

LOSSLESS = ("PNG", "BMP", "TIFF", "PPM")
pixels = arrays(np.uint8, st.tuples(st.integers(5, 12), st.integers(5, 12), st.just(3)))


def png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG file that declares a size, with any chunks after its header."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n"
    for name, body in ((b"IHDR", header), *chunks, (b"IEND", b"")):
        data += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return data


@pytest.mark.parametrize("path", PHOTOS, ids=lambda path: path.name)
def test_a_real_photograph_is_what_pillow_makes_of_it(path: Any) -> None:
    made = image_pixels(path.read_bytes())
    assert np.array_equal(made, np.asarray(Image.open(path).convert("RGB")))
    assert made.flags.writeable and made.flags.c_contiguous
    asked: list[str] = []
    linked = image_pixels("a/photo.jpg", lambda link: asked.append(link) or path.read_bytes())
    assert np.array_equal(linked, made) and asked == ["a/photo.jpg"]


@pytest.mark.parametrize("data", [b"P3 secret 1 1", b"P6 1 1 secret", b"P6 1secretsecret", b"P3 1 1 255 secret x"])
def test_no_message_shows_text_that_begins_as_an_image_does(data: bytes) -> None:
    with pytest.raises(BadMedia, match="it holds a value that is not valid") as told:
        image_pixels(data)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_read(form: str) -> None:
    image = picture(40, 30)
    data = saved(Image.fromarray(image), form)
    by_pillow = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert np.array_equal(image_pixels(data), image if form in LOSSLESS else by_pillow)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGBA", "CMYK", "YCbCr", "HSV", "LAB"])
def test_every_mode_becomes_rgb_as_pillow_converts_it(mode: str) -> None:
    image = Image.fromarray(picture(20, 30)).convert("RGBA" if mode == "PA" else "RGB")
    image = image.convert("P").convert("PA") if mode == "PA" else image.convert(mode)
    assert np.array_equal(image_pixels(image), np.asarray(image.convert("RGB")))


def test_alpha_is_dropped_and_not_blended() -> None:
    clear = np.full((4, 4, 4), (200, 100, 50, 0), np.uint8)
    assert (image_pixels(saved(Image.fromarray(clear), "PNG")) == (200, 100, 50)).all()
    assert (image_pixels(clear) == (200, 100, 50)).all()


@pytest.mark.parametrize("form", ["PNG", "TIFF", "PPM"])
def test_sixteen_bit_grey_is_scaled_and_not_clipped(form: str) -> None:
    values = np.array([[0, 128, 129, 257], [32_768, 40_000, 65_534, 65_535]], np.uint16)
    expected = np.rint(values / 257).astype(np.uint8)
    for value in (saved(Image.fromarray(values), form), values, torch.from_numpy(values)):
        assert np.array_equal(image_pixels(value), np.repeat(expected[..., None], 3, axis=2))


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("form", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_the_exif_orientation_is_applied(form: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(Image.fromarray(picture(20, 30)), form, exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
    assert np.array_equal(image_pixels(data), expected)
    opened = Image.open(io.BytesIO(data))
    assert np.array_equal(image_pixels(opened), expected)
    assert np.array_equal(image_pixels(opened), expected)  # the caller's image stays as it is
    assert expected.shape[:2] == ((30, 20) if 5 <= orientation <= 8 else (20, 30))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_damaged_exif_data_leave_the_image_as_it_is() -> None:
    for exif in (b"Exif\0\0MM\0*\0\0\0\x08\xff\xff", b"Exif\0\0garbage", b"Exif\0\0II*\0\xff\xff\xff\xff"):
        assert image_pixels(saved(Image.fromarray(picture(20, 30)), "JPEG", exif=exif)).shape == (20, 30, 3)


@given(pixels)
def test_arrays_and_tensors_of_every_layout_give_the_same_image(image: NDArray[np.uint8]) -> None:
    first = image.transpose(2, 0, 1)
    for value in (image, first, torch.from_numpy(image), torch.from_numpy(first.copy()), image.tolist(), image / 255.0):
        found = image_pixels(value)
        assert np.array_equal(found, image) and found.flags.c_contiguous and found is not image
    half = torch.from_numpy(first / np.float32(255)).to(torch.bfloat16)
    assert np.abs(image_pixels(half).astype(int) - image).max() <= 1  # bfloat16 has 8 bits


@given(arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_grey_is_repeated_in_all_channels(grey: NDArray[np.uint8]) -> None:
    for value in (grey, grey[:, :, None], torch.from_numpy(grey)[None]):
        assert np.array_equal(image_pixels(value), np.stack([grey] * 3, axis=2))
    assert np.array_equal(image_pixels(grey > 99), np.stack([np.where(grey > 99, 255, 0)] * 3, axis=2))


def test_where_both_places_fit_arrays_have_their_channels_last_and_tensors_first() -> None:
    cube = np.random.default_rng(0).integers(0, 256, (3, 3, 3), dtype=np.uint8)
    assert np.array_equal(image_pixels(cube), cube)
    assert np.array_equal(image_pixels(torch.from_numpy(cube)), cube.transpose(1, 2, 0))


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_an_animation_the_first_frame_is_taken(form: str) -> None:
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    found = image_pixels(saved(frames[0], form, save_all=True, append_images=frames[1:]))
    assert np.abs(found.astype(int) - (255, 0, 0)).max() <= 2  # WebP is lossy


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (None, "the record has no image"),
        (b"", "the image file is empty"),
        (b"hello, I am a picture", r"not a JPEG, .* image: 21 bytes of something else"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a JPEG"),
        (b"\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x05posix\x94", "not a JPEG"),
        (b"\x93NUMPY\x01\0v\0{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "not a JPEG"),
        (saved(Image.new("RGB", (8, 8)), "ICO"), "not a JPEG"),
        (png(60_000, 60_000), "too large|up to 67,108,864 pixels"),
        (png(10_000, 10_000), "is 10000 × 10000; up to 67,108,864 pixels"),
        (png(0, 10), "cannot be decoded|no pixels|not a"),
        (png(10, 10), "cannot be decoded"),
        (png(10, 10, (b"IDAT", zlib.compress(bytes(5)))), "cannot be decoded"),
        (png(10, 10, (b"zTXt", b"a\0\0" + zlib.compress(bytes(1 << 26)))), "cannot be decoded"),
        (np.zeros((0, 5, 3), np.uint8), "no pixels: it is 5 × 0"),
        (np.zeros((5, 5, 5), np.uint8), "1 to 4 channels"),
        (np.zeros(5, np.uint8), r"2 or 3 dimensions, not the shape \[5\]"),
        (np.zeros((2, 5, 5, 3), np.uint8), "2 or 3 dimensions"),
        (np.broadcast_to(np.uint8(0), (1 << 14, 1 << 14, 3)), "up to 67,108,864 pixels"),
        (np.full((4, 4), 300), "integers of an image are 0 to 255; these are 300 to 300"),
        (np.full((4, 4), -1), "these are -1 to -1"),
        (np.full((4, 4), 7.0), "floats of an image are 0 to 1; these are 7 to 7"),
        (np.full((4, 4), np.nan), "floats of an image are 0 to 1"),
        (np.full((4, 4), "x"), "an image of <U1 cannot be read"),
        (np.full((4, 4), None), "an image of object cannot be read"),
        (["a.jpg", "b.jpg"], "2 or 3 dimensions"),
        ({"width": 3}, "neither 'bytes' nor 'path'"),
        (object(), "is not a file"),
    ],
    ids=lambda value: "" if not isinstance(value, str) else value[:30],
)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_what_is_no_good_is_refused_with_the_reason(value: Any, sentence: str) -> None:
    with pytest.raises(BadMedia, match=sentence):
        image_pixels(value)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("share", [0.3, 0.7, 0.98])
def test_a_truncated_file_is_an_error(form: str, share: float) -> None:
    data = saved(Image.fromarray(picture(120, 160)), form)
    with pytest.raises(BadMedia, match=r"cannot be decoded|not a"):
        image_pixels(data[: int(len(data) * share)])


def test_the_name_of_a_file_does_not_matter() -> None:
    data = saved(Image.fromarray(picture(8, 8)), "PNG")
    assert np.array_equal(image_pixels({"bytes": data, "path": "photo.eps"}), picture(8, 8))


def test_32_bit_and_float_tiffs_are_read_within_their_range() -> None:
    deep = np.array([[0, 257], [65_535, 40_000]], np.int32)
    assert image_pixels(saved(Image.fromarray(deep), "TIFF"))[..., 0].tolist() == [[0, 1], [255, 156]]
    floats = np.array([[0, 0.5], [1, 0.25]], np.float32)
    assert image_pixels(saved(Image.fromarray(floats), "TIFF"))[..., 0].tolist() == [[0, 128], [255, 64]]
    with pytest.raises(BadMedia, match="0 to 65535; these are 0 to 70000"):
        image_pixels(saved(Image.fromarray(np.array([[0, 70_000]], np.int32)), "TIFF"))


def test_a_large_image_within_the_limit_is_read() -> None:
    assert MAX_PIXELS < Image.MAX_IMAGE_PIXELS  # from where on Pillow warns
    wide = Image.new("1", (1 << 13, 1 << 10))
    assert image_pixels(saved(wide, "PNG")).shape == (1 << 10, 1 << 13, 3)
