"""Frames -> an MP4 file, for tests and demos: clips encoded one by one, as datasets are recorded, and joined."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import av
import numpy as np
from numpy.typing import NDArray

_ENCODERS = {"h264": "libx264", "av1": "libsvtav1", "hevc": "libx265"}
_FAST = {"h264": {"preset": "veryfast"}, "av1": {"preset": "12"}, "hevc": {"preset": "ultrafast"}}


@dataclass(frozen=True)
class Encoding:
    """How videos are encoded.

    Attributes:
        codec: of the frames.
        group: frames from one key frame to the next.
        b_frames: frames between two others that are encoded after both.
        crf: quality; smaller is better.
        header_in_front: whether the file begins with its header, as for the web; else it ends with it.
    """

    codec: Literal["h264", "av1", "hevc"] = "h264"
    group: int = 2
    b_frames: int = 0
    crf: int = 23
    header_in_front: bool = True


def write_video(path: Path, clips: Sequence[NDArray[np.uint8]], fps: int, encoding: Encoding) -> None:
    """Write clips one after another into one video.

    Args:
        path: of the file.
        clips: frames of each clip, uint8 of shape (frames, height, width, 3). An array that comes several times in a
            row is encoded once.
        fps: frames per second.
        encoding: how.
    """
    flags = {"movflags": "faststart"} if encoding.header_in_front else {}
    with av.open(str(path), "w", format="mp4", options=flags) as joined:
        stream: Any = None
        first = 0
        before: NDArray[np.uint8] | None = None
        data = b""
        for clip in clips:
            if clip is not before:
                data = _encoded(clip, fps, encoding)
                before = clip
            part: Any = av.open(io.BytesIO(data))
            with part:
                source = part.streams.video[0]
                if stream is None:
                    stream = joined.add_stream_from_template(source, opaque=True)
                shift = int(Fraction(first, fps) / source.time_base)
                for packet in part.demux(source):
                    if packet.dts is not None:
                        packet.stream = stream
                        packet.dts += shift
                        packet.pts += shift
                        joined.mux(packet)
            first += len(clip)


def _encoded(clip: NDArray[np.uint8], fps: int, encoding: Encoding) -> bytes:
    data = io.BytesIO()
    with av.open(data, "w", format="mp4") as container:
        options = {**_FAST[encoding.codec], "crf": str(encoding.crf)}
        if encoding.codec == "hevc":
            options["x265-params"] = f"log-level=error:bframes={encoding.b_frames}:keyint={encoding.group}"
        stream: Any = container.add_stream(_ENCODERS[encoding.codec], rate=fps, options=options)
        stream.height, stream.width = clip.shape[1:3]
        stream.pix_fmt = "yuv420p"
        stream.codec_context.gop_size = encoding.group
        stream.codec_context.max_b_frames = encoding.b_frames
        for frame in clip:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    return data.getvalue()
