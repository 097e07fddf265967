"""What becomes of a frame: its pixels or distances, of the size of the batch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from penstock.media.errors import BadMedia
from penstock.media.video.sinks import write_depth, write_rgb

PIXELS = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
METRES = np.random.default_rng(1).random((48, 64), np.float32)


def test_pixels_of_the_right_size_are_copied() -> None:
    for resize in (False, True):
        out = np.zeros((48, 64, 3), np.uint8)
        write_rgb(PIXELS, out, resize)
        np.testing.assert_array_equal(out, PIXELS)


@given(st.integers(2, 80), st.integers(2, 80))  # of one column torch in float repeats the first line
def test_resized_pixels_are_within_one_step_of_torch(height: int, width: int) -> None:
    out = np.zeros((height, width, 3), np.uint8)
    write_rgb(PIXELS, out, True)
    planes = torch.from_numpy(PIXELS).permute(2, 0, 1)[None].float().contiguous()
    exact = torch.nn.functional.interpolate(planes, (height, width), mode="bilinear", antialias=True)
    assert np.abs(out - exact[0].round().permute(1, 2, 0).numpy()).max() <= 1


@pytest.mark.parametrize("shape", [(64, 48), (48, 1), (1, 64)])
def test_another_size_is_refused_unless_it_is_to_be_resized(shape: tuple[int, int]) -> None:
    message = f"a frame has 64 × 48 pixels, not {shape[1]} × {shape[0]}"
    with pytest.raises(BadMedia, match=message):
        write_rgb(PIXELS, np.zeros((*shape, 3), np.uint8), False)
    with pytest.raises(BadMedia, match=message):
        write_depth(METRES, np.zeros((*shape, 1), np.float32), False)


def test_distances_are_taken_from_the_nearest_pixel() -> None:
    out = np.zeros((24, 32, 1), np.float32)
    write_depth(METRES, out, True)
    assert np.isin(out, METRES).all(), "an average of two distances is no distance"
    np.testing.assert_array_equal(out[..., 0], METRES[1::2, 1::2])
