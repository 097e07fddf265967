"""Frames -> an MP4 file, for tests and demos: clips encoded one by one, as datasets are recorded, and joined."""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import av
import numpy as np
from numpy.typing import NDArray

_ENCODERS = {"h264": "libx264", "av1": "libsvtav1", "hevc": "libx265"}
_FAST = {"h264": {"preset": "veryfast"}, "av1": {"preset": "12"}, "hevc": {"preset": "ultrafast"}}


@dataclass(frozen=True)
class Encoding:
    """Options of the encoder.

    Attributes:
        codec: Name of the codec.
        group: Number of frames from one key frame to the next.
        b_frames: Number of consecutive B-frames, which are encoded after both their neighbours.
        crf: Constant rate factor; smaller means better quality.
        header_in_front: Whether the header is at the beginning of the file, as for the web, instead of the end.
    """

    codec: Literal["h264", "av1", "hevc"] = "h264"
    group: int = 2
    b_frames: int = 0
    crf: int = 23
    header_in_front: bool = True


def write_video(path: Path, clips: Sequence[NDArray[np.uint8]], fps: int, encoding: Encoding) -> None:
    """Write clips one after another into one video.

    Args:
        path: File to write.
        clips: Frames of each clip, uint8, shape (frames, height, width, 3). An array that is repeated consecutively is
            encoded once.
        fps: Frames per second.
        encoding: Options of the encoder.
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
                for packet in _timed(part.demux(source), first, Fraction(1, fps), encoding.b_frames):
                    packet.stream = stream
                    joined.mux(packet)
            first += len(clip)


def _timed(packets: Iterable[Any], first: int, frame: Fraction, b_frames: int) -> Iterator[Any]:
    """Yield the packets of a clip with their times in the joined video.

    How far ahead of its time a frame is decoded differs between clips, and encoders get it wrong for clips of one
    frame. Here it is the same for all of a video: ``b_frames``, which is as much as any encoder needs.

    Args:
        packets: Packets of one clip, in decoding order.
        first: Number of the clip's first frame in the video.
        frame: Seconds from one frame to the next.
        b_frames: Number of consecutive B-frames.
    """
    own = [packet for packet in packets if packet.pts is not None]  # without the one that ends a stream
    shown = np.argsort(np.argsort([packet.pts for packet in own])).tolist()
    for number, (packet, place) in enumerate(zip(own, shown, strict=True), first):
        packet.pts = int((first + place) * frame / packet.time_base)
        packet.dts = int((number - b_frames) * frame / packet.time_base)
        yield packet


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
        frames = (av.VideoFrame.from_ndarray(frame, format="rgb24") for frame in clip)
        packets = (packet for frame in chain(frames, [None]) for packet in stream.encode(frame))
        for packet in _timed(packets, 0, Fraction(1, fps), encoding.b_frames):
            container.mux(packet)
    return data.getvalue()
