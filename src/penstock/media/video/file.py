"""Evenly spaced frames of a video file, in one pass through PyAV. Knows nothing of records.

The packets of the file are read first: their number is the number of frames, whatever the header says. They are decoded
in order, but groups of pictures without a wanted frame are skipped, and so is the rest of a group after its last one:

    packets    K . . . . . K . . . . . K . . . . . K . . . . .       K: a keyframe
    wanted     x                         x             x
    decoded    K           -           K .         K . .

So 32 frames of an hour of video cost 32 groups of pictures.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import av
import numpy as np
from av.sidedata.sidedata import Type
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from penstock.media.container import open_container
from penstock.media.errors import BadMedia
from penstock.media.image.file import MAX_PIXELS, check_size
from penstock.media.image.pixels import Pixels

T = TypeVar("T")
if TYPE_CHECKING:
    Packet = av.Packet[av.VideoStream]

TIMED_FORMATS = ("mov", "matroska")  # whose packets have the times of their frames; those of AVI are guessed
CODECS_WITH_HIDDEN_FRAMES = ("vp8",)  # packets that show nothing: only a decoder can count the frames
MAX_FRAMES = 1_000_000  # 9 hours at 30 per second


def file_frames(data: bytes, count: int, make: Callable[[Pixels], T]) -> list[T]:
    """Return the results of a function for evenly spaced frames of a video file.

    Args:
        data: Content of an MP4, MOV, MKV, WebM or AVI file.
        count: Number of frames to return. The last frame of a shorter video is repeated.
        make: Function to call with each frame, RGB, upright.

    Raises:
        BadMedia: If it is another kind of file, is damaged or truncated, or is too large.
    """
    with open_container(data) as container:
        stream = container.streams.best("video")
        if not isinstance(stream, av.VideoStream):
            raise BadMedia("the file has no video in it")
        codec = stream.codec_context
        if codec is None:
            raise BadMedia("the codec of the video is not known")
        check_size(codec.width, codec.height)
        codec.thread_count = 1  # the caller has threads of its own
        codec.options = {"max_pixels": str(MAX_PIXELS)}  # also where the size changes within the video
        packets = _packets(container.demux(stream))
        timed = container.format.name.startswith(TIMED_FORMATS) and codec.name not in CODECS_WITH_HIDDEN_FRAMES
        made = _by_time(codec, packets, count, make) if timed else []
        return made or _by_number(codec, packets, count, make)


def evenly(total: int, count: int) -> list[int]:
    """Return evenly spaced frame numbers, from the first to the last, rounded down.

    The last frame of a shorter video is repeated.

    Args:
        total: Number of frames of the video, 1 or more.
        count: Number of frames to choose.
    """
    if total < count:
        return [*range(total), *[total - 1] * (count - total)]
    chosen: list[int] = np.linspace(0, total - 1, count, dtype=np.int64).tolist()
    return chosen


def _packets(demuxed: "Iterable[Packet]") -> "list[Packet]":
    packets: list[Packet] = []
    for packet in demuxed:
        if packet.is_corrupt:
            raise BadMedia(f"the video is damaged or truncated after {len(packets)} frames")
        if packet.size:
            packets.append(packet)
        if len(packets) > MAX_FRAMES:
            raise BadMedia(f"the video has more than {MAX_FRAMES:,} frames")
    if not packets:
        raise BadMedia("the video has no frames")
    return packets


def _by_time(codec: av.VideoCodecContext, packets: "list[Packet]", count: int, make: Callable[[Pixels], T]) -> list[T]:
    """Select frames by the times of their packets. Empty if times are missing or a frame is not decoded."""
    times = [packet.pts for packet in packets if packet.pts is not None]
    shown = sorted(packet.pts for packet in packets if packet.pts is not None and not packet.is_discard)
    if not shown or len(times) < len(packets) or len(set(shown)) < len(shown):
        return []
    wanted = [shown[index] for index in evenly(len(shown), count)]
    keys = [packet.is_keyframe for packet in packets]
    found: dict[int, T] = {}
    pixels = _Converter()
    for run in _runs(times, keys, set(wanted)):
        for frame in _decoded(codec, packets[run]):
            if frame.pts in wanted and frame.pts not in found:
                found[frame.pts] = make(pixels(frame))
    return [found[time] for time in wanted] if len(found) == len(set(wanted)) else []


def _runs(times: list[int], keys: list[bool], wanted: set[int]) -> Iterator[slice]:
    """Yield the ranges of packets to decode, each from a keyframe to a wanted frame.

    Args:
        times: Presentation time of each packet's frame.
        keys: Whether each packet is a keyframe.
        wanted: Presentation times of the wanted frames.
    """
    needed = np.zeros(len(times) + 1, bool)
    keyframes: list[int] = []
    for position, (time, key) in enumerate(zip(times, keys, strict=True)):
        if key:
            keyframes.append(position)
        if time in wanted:
            # A frame that is stored after a keyframe but shown before it also needs the group of pictures before.
            start = next((key for key in reversed(keyframes) if times[key] <= time), 0)
            needed[start : position + 1] = True
    edges = np.flatnonzero(np.diff(needed, prepend=False)).tolist()
    yield from map(slice, edges[::2], edges[1::2])


def _by_number(
    codec: av.VideoCodecContext, packets: "list[Packet]", count: int, make: Callable[[Pixels], T]
) -> list[T]:
    """Select frames by their numbers in the decoded video."""
    total = len(packets)
    pixels = _Converter()
    while True:
        wanted = evenly(total, count)
        found: dict[int, T] = {}
        number = -1
        for number, frame in enumerate(_decoded(codec, packets)):
            if number in wanted:
                found[number] = make(pixels(frame))
        if number + 1 == total:
            return [found[index] for index in wanted]
        total = number + 1  # some packets hold no frame: again, with the number that there are
        if not total:
            raise BadMedia("no frame of the video can be decoded")


def _decoded(codec: av.VideoCodecContext, packets: "list[Packet]") -> Iterator[av.VideoFrame]:
    """Yield the frames of packets that start with a keyframe.

    A decoder conceals damage and marks only the damaged frame, but frames that depend on it are wrong, too.
    """
    start = packets[0].pts
    for packet in (*packets, None):
        for frame in codec.decode(packet):
            # Frames that are shown before the keyframe lack the group of pictures before, and none of them is wanted.
            leading = start is not None and frame.pts is not None and frame.pts < start
            if frame.is_corrupt and not leading:
                raise BadMedia("the video is damaged: not all of a frame can be decoded")
            yield frame
    codec.flush_buffers()


class _Converter:
    """Converts decoded frames to RGB."""

    def __init__(self) -> None:
        self._reformatter = VideoReformatter()

    def __call__(self, frame: av.VideoFrame) -> Pixels:
        check_size(frame.width, frame.height)
        pixels: NDArray[Any] = self._reformatter.reformat(frame, format="rgb24").to_ndarray()
        return _upright(pixels, frame)


def _upright(pixels: Pixels, frame: av.VideoFrame) -> Pixels:
    """Turn and mirror a frame by its display matrix [[a, b], [c, d]]: (x, y) is shown at (ax + cy, bx + dy)."""
    try:
        side_data: Mapping[Any, Any] = frame.side_data
        matrix = side_data.get(Type.DISPLAYMATRIX)
    except ValueError:  # side data of a kind that PyAV does not know
        matrix = None
    if matrix is None:
        return pixels
    a, b, _, c, d = np.frombuffer(bytes(matrix), np.int32)[:5].tolist()
    if abs(b) > abs(a):  # by 90°
        pixels = pixels.swapaxes(0, 1)
        a = c
        d = b
    return np.ascontiguousarray(pixels[:: -1 if d < 0 else 1, :: -1 if a < 0 else 1])
