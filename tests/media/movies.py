"""Images and videos for the tests of this room: made here, or real ones from tests/data/chat/media."""

import io
import tempfile
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

REAL = Path(__file__).parent.parent / "data" / "chat" / "media"
PHOTOS = [REAL / "1.jpg", REAL / "2.jpg", REAL / "3.jpg"]
VIDEOS = [REAL / "3.mp4", REAL / "2.avi"]


def picture(height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    """A photograph in any size."""
    photo = Image.open(PHOTOS[seed % len(PHOTOS)]).convert("RGB")
    return np.array(photo.resize((width, height), Image.Resampling.BICUBIC))


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def moving(frames: int, height: int = 48, width: int = 64) -> list[NDArray[np.uint8]]:
    """Frames that all differ: a bright bar that moves over a slow ramp."""
    made = []
    for number in range(frames):
        frame = np.full((height, width, 3), 40 + number % 100, np.uint8)
        frame[:, number % width : number % width + 6] = (250, 30, 90)
        made.append(frame)
    return made


def video(
    frames: list[NDArray[np.uint8]],
    form: str = "mp4",
    codec: str = "libx264",
    gop: int = 12,
    pts: list[int] | None = None,
    rotation: tuple[int, bool, bool] | None = None,
    container: dict[str, str] | None = None,
    title: str = "",
    **options: str,
) -> bytes:
    """Encode a video. ``pts`` are the times of the frames, in units of 1/25 s."""
    with tempfile.NamedTemporaryFile() as file:
        _encode(file.name, frames, form, codec, gop, pts, rotation, container or {}, title, options)
        return file.read()


def _encode(
    path: str,
    frames: list[NDArray[np.uint8]],
    form: str,
    codec: str,
    gop: int,
    pts: list[int] | None,
    rotation: tuple[int, bool, bool] | None,
    container: dict[str, str],
    title: str,
    options: dict[str, str],
) -> None:
    with av.open(path, "w", format=form, options=container) as output:
        if title:
            output.metadata["title"] = title
        stream = output.add_stream(codec, rate=25, options=options)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.gop_size = gop
        if rotation:
            degrees, hflip, vflip = rotation
            stream.set_display_rotation(degrees, hflip=hflip, vflip=vflip)
        for number, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts = pts[number] if pts else number
            output.mux(stream.encode(frame))
        output.mux(stream.encode())


def all_frames(data: bytes) -> list[NDArray[np.uint8]]:
    """Every frame, by a plain decode of the whole file."""
    with av.open(io.BytesIO(data)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
