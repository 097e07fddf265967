"""Bytes -> arrays: sound, images and videos, decoded when a batch is made."""

from typing import TYPE_CHECKING

from penstock.runtime.exports import lazy_exports

if TYPE_CHECKING:
    from penstock.media.imageprocessor import ImageProcessor
    from penstock.media.tensors import MediaTensors
    from penstock.media.video.decoders import Decoders

__all__ = ["Decoders", "ImageProcessor", "MediaTensors"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "penstock.media.imageprocessor": ["ImageProcessor"],
            "penstock.media.tensors": ["MediaTensors"],
            "penstock.media.video.decoders": ["Decoders"],
        },
    )
