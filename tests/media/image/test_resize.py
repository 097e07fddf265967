import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn.functional import interpolate

from penstock.media.image.resize import Filter, resized
from tests.media.movies import PHOTOS, picture

SIZES = [(168, 300), (512, 512), (100, 100), (480, 640), (1_000, 900), (300, 200), (64, 256)]


def difference(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> int:
    return int(np.abs(one.astype(int) - other.astype(int)).max())


def by_pillow(image: NDArray[np.uint8], height: int, width: int, filter: Filter) -> NDArray[np.uint8]:
    """Rows first, then columns, as all versions of Pillow do it for most sizes."""
    kind = Image.Resampling[filter.upper()]
    rows = Image.fromarray(image).resize((width, len(image)), kind)
    return np.asarray(rows.resize((width, height), kind))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("seed", range(len(PHOTOS)))
def test_photographs_are_within_one_step_of_pillow(size: tuple[int, int], seed: int) -> None:
    image = picture(*size, seed)
    for height, width in ((256, 256), (96, 128)):
        found = resized(image[None], height, width)[0]
        assert difference(found, by_pillow(image, height, width, "bilinear")) <= 1
        cubic = resized(image[None], height, width, "bicubic")[0]
        off = np.abs(cubic.astype(int) - by_pillow(image, height, width, "bicubic"))
        # Where an edge overshoots, values are clipped between rows and columns: about one in 100,000 is off by 2.
        assert off.max() <= 2 and (off > 1).mean() < 1e-4


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_frames_are_within_one_step_of_torch_in_float(size: tuple[int, int]) -> None:
    frames = np.stack([picture(*size, seed) for seed in range(3)])
    planes = torch.from_numpy(frames).permute(0, 3, 1, 2).double()
    exact = interpolate(planes, (96, 128), mode="bilinear", antialias=True).permute(0, 2, 3, 1).numpy()
    found = resized(frames, 96, 128)
    assert found.shape == (3, 96, 128, 3) and found.dtype == np.uint8 and found.flags.c_contiguous
    # Half a step for each rounding, of which there are two, and a little for weights of 16 bits.
    assert np.abs(found - exact).max() <= 1.1


def test_each_frame_is_resized_by_itself() -> None:
    frames = np.stack([picture(60, 80, seed) for seed in range(3)])
    together = resized(frames, 32, 32)
    for frame, small in zip(frames, together, strict=True):
        assert np.array_equal(resized(frame[None], 32, 32)[0], small)


def test_frames_of_the_right_size_are_returned_as_they_are() -> None:
    frames = picture(32, 48)[None]
    assert resized(frames, 32, 48) is frames
    assert not np.shares_memory(resized(frames, 32, 32), frames)


def test_torch_settings_of_the_trainer_do_not_matter() -> None:
    frames = picture(60, 80)[None]
    expected = resized(frames, 32, 32)
    threads = torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            assert np.array_equal(resized(frames, 32, 32), expected)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.get_num_threads() == threads
