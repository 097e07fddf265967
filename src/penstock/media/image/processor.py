"""Pixels -> input of a vision model: resized and normalised, by our own processor or one of transformers.

Both are called in the same way:

    processor(image, return_tensors="pt", size={"height": 256, "width": 256}).pixel_values.squeeze(0)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from penstock.media.errors import BadMedia
from penstock.media.image.pixels import Pixels
from penstock.media.image.resize import Filter, resized

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


class ProcessorOutput(Protocol):
    """The result of an image processor, ours or one of transformers."""

    @property
    def pixel_values(self) -> Tensor: ...


VisionInput = Pixels | Image.Image
VisionProcessor = Callable[..., ProcessorOutput]
"""An image processor: an :class:`ImageProcessor`, or any of transformers."""


@dataclass(frozen=True, slots=True)
class ProcessedImages:
    """The result of an :class:`ImageProcessor`.

    Attributes:
        pixel_values: Normalised pixels, float32, shape (N, 3, height, width).
    """

    pixel_values: Tensor


@dataclass(frozen=True, slots=True)
class ImageProcessor:
    """Resizes images without cropping, and normalises them.

    With the default values, the result is that of transformers' ``CLIPImageProcessor(do_center_crop=False)``, within
    one step of uint8 before the normalisation; see :func:`penstock.media.image.resize.resized` for the rare exceptions.

    Attributes:
        mean: Mean per channel, for values from 0 to 1.
        std: Standard deviation per channel.
        filter: Interpolation filter of the resizing.
    """

    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD
    filter: Filter = "bicubic"

    def __call__(
        self,
        images: VisionInput | Sequence[VisionInput],
        *,
        size: Mapping[str, int],
        return_tensors: str = "pt",
        **ignored: object,
    ) -> ProcessedImages:
        """Process one image or several.

        Args:
            images: Image, uint8 of shape (H, W, 3) or a PIL image in RGB, or a sequence of them.
            size: ``height`` and ``width`` of the result.
            return_tensors: Always ``pt``, torch tensors.
            ignored: Further arguments of transformers' processors.
        """
        del return_tensors, ignored
        height = size["height"]
        width = size["width"]
        several = images if isinstance(images, Sequence) else [images]
        out = torch.empty((len(several), 3, height, width), dtype=torch.float32, device="cpu")
        scale, shift = self._affine()
        for image, filled in zip(several, out, strict=True):
            small = resized(np.asarray(image)[None], height, width, self.filter)[0]
            filled.copy_(torch.from_numpy(small).permute(2, 0, 1).contiguous())
            filled.mul_(scale).add_(shift)
        return ProcessedImages(out)

    def _affine(self) -> tuple[Tensor, Tensor]:
        """Return the scale and shift that normalise values from 0 to 255."""
        mean = torch.tensor(self.mean, dtype=torch.float64, device="cpu").view(3, 1, 1)
        std = torch.tensor(self.std, dtype=torch.float64, device="cpu").view(3, 1, 1)
        return (1 / (255 * std)).float(), (-mean / std).float()


def pixel_values(processor: VisionProcessor, image: Pixels, height: int | None, width: int | None) -> Tensor:
    """Return the result of a processor for one image.

    Args:
        processor: Image processor.
        image: RGB pixels.
        height: Height to request from the processor; None for the processor's own size.
        width: Width to request from the processor; ignored if ``height`` is None.

    Returns:
        Tensor of shape (3, height, width) for most processors. Some choose the size, or return several tiles.

    Raises:
        BadMedia: If the processor rejects the image.
    """
    # A PIL image: where an array has its channels, processors would have to guess.
    given = image if isinstance(processor, ImageProcessor) else Image.fromarray(image)
    size = {} if height is None else {"size": {"height": height, "width": width}}
    try:
        made = processor(given, return_tensors="pt", **size)
    except ValueError as error:
        shown = f"{image.shape[1]} × {image.shape[0]}"
        raise BadMedia(f"{type(processor).__name__} refuses an image of {shown}: {error}") from error
    return made.pixel_values.squeeze(0)
