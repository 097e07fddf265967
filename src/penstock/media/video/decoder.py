"""Decodes frames from their bytes, without a file. One decoder serves every video with the same coding."""

from collections.abc import Iterator, Sequence
from typing import Any

import av
import numpy as np
from av.video.frame import PictureType
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from penstock.media.errors import BadMedia
from penstock.media.video.codecs import CODECS
from penstock.readers.mp4.track import Coding

_UNKNOWN_RANGE = 0
_FULL_RANGE = 2
# Several threads per conversion cost ten times its time, for a frame of any size.
_ONE_THREAD: dict[str, Any] = {"threads": 1} if int(av.__version__.split(".")[0]) >= 17 else {}


class Decoder:
    """Decodes frames of one coding. For one thread at a time.

    Raises:
        BadMedia: If there is no decoder for the codec.
    """

    def __init__(self, coding: Coding) -> None:
        name = CODECS.get(coding.fourcc)
        if name is None:
            raise BadMedia(f"the codec {coding.fourcc!r} is not supported; there are {', '.join(CODECS)}")
        codec: Any = av.CodecContext.create(name, "r")
        codec.extradata = coding.config or None
        codec.thread_count = 1  # frames of a batch are decoded side by side instead
        primaries, transfer, matrix, full_range = coding.color
        codec.color_primaries = primaries
        codec.color_trc = transfer
        codec.colorspace = matrix
        codec.color_range = _FULL_RANGE if full_range else _UNKNOWN_RANGE
        self._codec = codec
        self._reformatter = VideoReformatter()

    def frames(self, packets: Sequence[memoryview], first: int) -> Iterator[tuple[int, "DecodedFrame"]]:
        """Decode consecutive packets, the first of which is a key frame.

        Args:
            packets: Encoded frames, in decoding order.
            first: Number of the first frame.

        Yields:
            Number and frame, in display order.

        Raises:
            BadMedia: If the bytes are damaged.
        """
        try:
            for number, data in enumerate(packets, first):
                packet = av.Packet(bytes(data))
                packet.pts = number
                packet.dts = number
                for frame in self._codec.decode(packet):
                    yield frame.pts, DecodedFrame(frame, self._reformatter)
            for frame in self._codec.decode(None):
                yield frame.pts, DecodedFrame(frame, self._reformatter)
        except av.FFmpegError as error:
            raise BadMedia(f"a frame can't be decoded: {error.strerror}") from None
        finally:
            self._codec.flush_buffers()


class DecodedFrame:
    """One decoded frame; see ``sinks.Frame``. It is valid until the next one is decoded."""

    def __init__(self, frame: Any, reformatter: VideoReformatter) -> None:
        self._frame = frame
        self._reformatter = reformatter

    def fault(self, *, is_start: bool) -> str:
        """Return what is wrong according to the decoder, which conceals damage and marks only the damaged frame.

        Args:
            is_start: Whether decoding may begin with this frame.
        """
        if self._frame.is_corrupt:
            return "a frame is damaged"
        if is_start and self._frame.pict_type != PictureType.I:
            return "a frame is marked as a key frame but is none, so no frame after it can be decoded alone"
        return ""

    def rgb(self) -> NDArray[np.uint8]:
        width = self._frame.width
        return self._plane("rgb24", np.uint8)[:, : width * 3].reshape(-1, width, 3)

    def codes(self) -> NDArray[np.uint16]:
        return self._plane("gray12le", np.dtype("<u2"))[:, : self._frame.width]

    def _plane(self, kind: str, dtype: Any) -> NDArray[Any]:
        """Return the frame in a pixel format with one plane, as lines with padding."""
        frame = self._frame
        if frame.format.name != kind:
            frame = self._reformatter.reformat(frame, format=kind, **_ONE_THREAD)
        plane: Any = frame.planes[0]
        return np.frombuffer(plane, dtype).reshape(frame.height, -1)
