"""Bytes -> arrays. Audio, image and video have a folder each; shared modules are here.

content     what a record holds -> the bytes of a file, or an array
links       paths and URLs in records -> bytes, within limits
span        bytes that a decoder reads in parts
container   files that FFmpeg opens
errors      BadMedia, which every decoder raises
audio/      speech clips and the sounds of chat records
image/      images of chat records and of cameras
video/      videos of chat records and of cameras
tensors     all media of a chat record -> tensors
"""

from typing import TYPE_CHECKING

from penstock.runtime.exports import lazy_exports

if TYPE_CHECKING:
    from penstock.media.image.processor import ImageProcessor
    from penstock.media.tensors import MediaTensors
    from penstock.media.video.decoders import Decoders

__all__ = ["Decoders", "ImageProcessor", "MediaTensors"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "penstock.media.image.processor": ["ImageProcessor"],
            "penstock.media.tensors": ["MediaTensors"],
            "penstock.media.video.decoders": ["Decoders"],
        },
    )
