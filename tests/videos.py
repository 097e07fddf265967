"""Videos whose frames show their number, in black and white blocks that survive encoding."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import av
import numpy as np
from numpy.typing import NDArray

from penstock.media.video.encoding import Encoding, write_video
from penstock.readers.ranges import Search
from penstock.store.blob import ByteRange

T = TypeVar("T")
Pixels = NDArray[np.uint8]

FPS = 30
BITS = 32  # per number, in 4 lines of 8 blocks
ENCODINGS = {
    "h264": Encoding("h264", group=2),
    "h264 at the end": Encoding("h264", group=2, header_in_front=False),
    "h264, groups of 12, 2 B-frames": Encoding("h264", group=12, b_frames=2, header_in_front=False),
    "h264, one group, 3 B-frames": Encoding("h264", group=250, b_frames=3),
    "hevc": Encoding("hevc", group=2),
    "hevc, open groups of 12, 3 B-frames": Encoding("hevc", group=12, b_frames=3),
    "hevc, open groups of 2, 1 B-frame": Encoding("hevc", group=2, b_frames=1, header_in_front=False),
    "av1": Encoding("av1", group=2),
    "av1, groups of 12": Encoding("av1", group=12, header_in_front=False),
}


def numbered_frame(number: int, height: int = 64, width: int = 64) -> Pixels:
    """Return a frame that shows a number in its upper half, and noise seeded by the number below."""
    bits = (number >> np.arange(BITS)) & 1
    blocks = np.where(bits, 235, 20).astype(np.uint8).reshape(4, 8)
    frame = np.random.default_rng(number).integers(60, 190, (height, width, 3), np.uint8)
    block = (height // 8, width // 8)
    frame[: block[0] * 4, : block[1] * 8] = np.kron(blocks, np.ones(block, np.uint8))[..., None]
    return frame


def number_of(frame: NDArray[Any]) -> int:
    """Return the number that a frame [H, W, C] shows."""
    height = frame.shape[0] // 8
    width = frame.shape[1] // 8
    blocks = frame[: height * 4, : width * 8].reshape(4, height, 8, width, -1).mean(axis=(1, 3, 4))
    return int((blocks.ravel() > 127) @ (1 << np.arange(BITS)))


def clip_of(numbers: Sequence[int], height: int = 64, width: int = 64) -> Pixels:
    return np.stack([numbered_frame(number, height, width) for number in numbers])


def write_numbered(path: Path, lengths: Sequence[int], encoding: Encoding) -> bytes:
    """Write a video of several clips, whose frames show their place in the video. Returns the bytes of the file."""
    ends = np.cumsum(lengths)
    clips = [clip_of(range(end - length, end)) for length, end in zip(lengths, ends.tolist(), strict=True)]
    write_video(path, clips, FPS, encoding)
    return path.read_bytes()


def run_search(data: bytes, search: Callable[[int], Search[T]]) -> tuple[T, list[ByteRange]]:
    """Return what a search finds in a file, and the ranges that it asked for."""
    steps = search(len(data))
    asked: list[ByteRange] = []
    answer: Any = None
    while True:
        try:
            start, end = steps.send(answer)
        except StopIteration as found:
            return found.value, asked
        assert 0 <= start <= end <= len(data)
        asked.append((start, end))
        answer = memoryview(data)[start:end]


def write_moving_video(
    path: Path, frames: int, group: int, b_frames: int = 0, *, open_groups: bool = False, refresh: bool = False
) -> bytes:
    """Write an H.264 video of a moving picture, so that damage to a frame is visible in the frames after it.

    Args:
        path: Path of the file.
        frames: Number of frames.
        group: Number of frames from one key frame to the next.
        b_frames: Number of consecutive B-frames.
        open_groups: Whether frames may depend on frames of the previous group.
        refresh: Whether a group begins with a frame that refreshes only part of the picture.

    Returns:
        Bytes of the file.
    """
    fixed = f"keyint={group}:min-keyint=1:scenecut=0:b-adapt=0:bframes={b_frames}"
    fixed += f":open-gop={int(open_groups)}:intra-refresh={int(refresh)}"
    rows, columns = np.mgrid[:96, :128]
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"x264-params": fixed})
        stream.height, stream.width = rows.shape
        stream.pix_fmt = "yuv420p"
        for number in range(frames):
            shades = (columns * 2 + number * 3, rows * 2 + number * 5, columns + rows + number * 7)
            pixels = np.stack(shades, axis=-1).astype(np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    return path.read_bytes()


def with_damage(data: bytes, begin: int, size: int, random: np.random.Generator) -> bytes:
    """Return a file with four wrong bytes in a frame, after the header of its first slice."""
    at = begin + int(random.integers(5, size - 4))
    return data[:at] + random.bytes(4) + data[at + 4 :]
