import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import CLIPImageProcessorPil, SiglipImageProcessorPil

from penstock.media.errors import BadMedia
from penstock.media.image.processor import CLIP_MEAN, CLIP_STD, ImageProcessor, pixel_values
from tests.media.movies import PHOTOS, picture

STEP = 1 / (255 * np.array(CLIP_STD)[:, None, None])  # of uint8, after the normalisation
ROUNDING = 1.001


@pytest.mark.parametrize("size", [(168, 300), (512, 512), (100, 100), (1_000, 900)], ids=str)
@pytest.mark.parametrize("seed", range(len(PHOTOS)))
def test_the_result_is_clips_within_one_step_of_uint8(size: tuple[int, int], seed: int) -> None:
    image = picture(*size, seed)
    clip = pixel_values(CLIPImageProcessorPil(do_center_crop=False), image, 256, 224)
    ours = pixel_values(ImageProcessor(), image, 256, 224)
    assert ours.shape == clip.shape == (3, 256, 224) and ours.dtype == clip.dtype == torch.float32
    steps = np.abs(ours.numpy() - clip.numpy()) / STEP
    # See test_resize: where an edge overshoots, about one value in 100,000 is off by 2.
    assert steps.max() <= 2 * ROUNDING and (steps > ROUNDING).mean() < 1e-4


def test_another_order_of_rows_and_columns_changes_few_values() -> None:
    image = picture(300, 200)  # recent versions of Pillow begin with the columns here
    clip = pixel_values(CLIPImageProcessorPil(do_center_crop=False), image, 256, 256)
    steps = np.abs(pixel_values(ImageProcessor(), image, 256, 256).numpy() - clip.numpy()) / STEP
    assert steps.max() <= 8 and (steps > ROUNDING).mean() < 1e-3


def test_the_normalisation_is_exact() -> None:
    image = picture(64, 64)
    found = pixel_values(ImageProcessor(), image, 64, 64).numpy()
    expected = (image.transpose(2, 0, 1) / 255 - np.array(CLIP_MEAN)[:, None, None]) / np.array(CLIP_STD)[:, None, None]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_several_images_of_any_size_make_one_tensor() -> None:
    images = [picture(40, 60), Image.fromarray(picture(50, 30, 1)), picture(32, 32, 2)]
    processor = ImageProcessor()
    together = processor(images, return_tensors="pt", size={"height": 32, "width": 48}, do_rescale=True).pixel_values
    assert together.shape == (3, 3, 32, 48)
    for image, made in zip(images, together, strict=True):
        assert torch.equal(pixel_values(processor, np.array(image), 32, 48), made)


def test_other_means_deviations_and_filters_can_be_used() -> None:
    plain = ImageProcessor(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), filter="bilinear")
    image = picture(64, 64)
    np.testing.assert_allclose(pixel_values(plain, image, 64, 64), image.transpose(2, 0, 1) / 255, atol=1e-6)
    assert pickle.loads(pickle.dumps(plain)) == plain


def test_a_processor_of_transformers_is_called_as_it_expects() -> None:
    siglip = SiglipImageProcessorPil()
    image = picture(3, 90)  # three rows: in an array, they could be channels
    expected = siglip(Image.fromarray(image), return_tensors="pt", size={"height": 64, "width": 96}).pixel_values[0]
    assert torch.equal(pixel_values(siglip, image, 64, 96), expected)


def test_an_image_that_a_processor_refuses_is_a_bad_sample() -> None:
    class Picky:
        def __call__(self, image: Image.Image, **_: object) -> None:
            raise ValueError("the aspect ratio must be smaller than 200")

    with pytest.raises(BadMedia, match=r"Picky refuses an image of 90 × 3: the aspect ratio must be smaller"):
        pixel_values(Picky(), picture(3, 90), 32, 32)


def test_torch_settings_of_the_trainer_do_not_matter() -> None:
    image = picture(60, 80)
    expected = pixel_values(ImageProcessor(), image, 32, 32)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            found = pixel_values(ImageProcessor(), image, 32, 32)
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.dtype == torch.float32 and torch.equal(found, expected)
