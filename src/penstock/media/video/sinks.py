"""Writes decoded frames into a batch: RGB pixels, or distances of a depth camera, resized if asked for."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.media.errors import BadMedia
from penstock.media.video.depth import Quantised, distances


class Frame(Protocol):
    """A decoded frame of any decoder."""

    def rgb(self) -> NDArray[np.uint8]:
        """Return the pixels, shape (height, width, 3)."""
        ...

    def codes(self) -> NDArray[np.uint16]:
        """Return the values of a 12-bit grey image, shape (height, width)."""
        ...


class Sink(Protocol):
    """Writes frames into a batch."""

    def write(self, frame: Frame, out: NDArray[Any]) -> None:
        """Write a frame into an array of shape (height, width, channels).

        Raises:
            BadMedia: If the frame has another size and is not to be resized.
        """
        ...


@dataclass(frozen=True)
class Rgb:
    """Writes RGB pixels as uint8.

    Attributes:
        resize: Whether to resize frames whose size differs from the batch's.
    """

    resize: bool = False

    def write(self, frame: Frame, out: NDArray[Any]) -> None:
        write_rgb(frame.rgb(), out, self.resize)


@dataclass(frozen=True)
class Depth:
    """Writes distances as float32.

    Attributes:
        quantised: Encoding of the stored distances.
        unit: Unit of the result.
        resize: Whether to resize frames whose size differs from the batch's.
    """

    quantised: Quantised
    unit: Literal["mm", "m"]
    resize: bool = False

    def write(self, frame: Frame, out: NDArray[Any]) -> None:
        write_depth(distances(frame.codes(), self.quantised, self.unit), out, self.resize)


def write_rgb(pixels: NDArray[np.uint8], out: NDArray[Any], resize: bool) -> None:
    """Write pixels of shape (height, width, channels) into a batch; see ``Sink.write``."""
    if resize and pixels.shape != out.shape:
        from penstock.media.image.resize import resized  # imports torch

        pixels = resized(pixels[None], *out.shape[:2])[0]
    _check_size(pixels, out)
    out[:] = pixels


def write_depth(metres: NDArray[np.float32], out: NDArray[Any], resize: bool) -> None:
    """Write distances of shape (height, width) into a batch, resized without averaging."""
    if resize and metres.shape != out.shape[:2]:
        rows = _nearest(metres.shape[0], out.shape[0])
        columns = _nearest(metres.shape[1], out.shape[1])
        metres = metres[rows[:, None], columns]
    _check_size(metres, out)
    out[:] = metres[..., None]


def _nearest(old: int, new: int) -> NDArray[np.int64]:
    """Return the nearest of ``old`` positions for each of ``new`` ones."""
    return ((np.arange(new) + 0.5) * old / new).astype(np.int64)


def _check_size(pixels: NDArray[Any], out: NDArray[Any]) -> None:
    """Raise if a frame has another size than the batch: numpy would broadcast a single line."""
    height, width = pixels.shape[:2]
    if (height, width) != out.shape[:2]:
        raise BadMedia(f"a frame has {width} × {height} pixels, not {out.shape[1]} × {out.shape[0]}")
