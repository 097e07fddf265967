"""Decodes sound that only FFmpeg reads: M4A, AAC, WebM, and videos. Knows nothing of records."""

import math
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from penstock.media.audio.waveform import Samples, check_header
from penstock.media.errors import BadMedia

if TYPE_CHECKING:
    import av


def is_for_ffmpeg(data: bytes) -> bool:
    """Return whether the data is an MP4, Matroska, AVI or AAC file, by its first bytes."""
    aac = len(data) > 1 and data[0] == 0xFF and data[1] & 0xF6 == 0xF0  # MPEG audio has other bits there
    return aac or data[4:8] == b"ftyp" or data.startswith(b"\x1aE\xdf\xa3") or data[8:12] == b"AVI "


def ffmpeg_samples(data: bytes, seconds: float) -> tuple[Samples, int]:
    """Decode the beginning of a file's sound.

    Args:
        data: Content of the file.
        seconds: Least duration to decode, if the file has as much.

    Returns:
        Mean of all channels, and the sample rate.

    Raises:
        BadMedia: If the file cannot be decoded, or has no sound in it.
    """
    if find_spec("av") is None:  # sounds of other kinds need no FFmpeg
        raise BadMedia("only FFmpeg reads this file: pip install av")
    import av

    from penstock.media.container import open_container

    with open_container(data) as container:
        stream = container.streams.best("audio")
        if not isinstance(stream, av.AudioStream):
            raise BadMedia("the file has no sound in it")
        if stream.codec_context is None:
            raise BadMedia("the codec of the sound is not known")
        stream.codec_context.thread_count = 1  # the caller has threads of its own
        floats = av.AudioResampler(format="fltp")  # the rate and the channels stay
        blocks: list[Samples] = []
        rate = 0
        left = 1.0
        for frame in container.decode(stream):
            if not rate:
                rate = frame.sample_rate
                check_header(rate, frame.layout.nb_channels, 1)
                left = math.ceil(seconds * rate)
            for block in _converted(floats, frame):
                blocks.append(block.to_ndarray().mean(axis=0, dtype=np.float32))
                left -= len(blocks[-1])
            if left <= 0:
                break
    if not blocks:
        raise BadMedia("the file holds 0 samples of sound")
    return np.concatenate(blocks), rate


def _converted(floats: "av.AudioResampler", frame: "av.AudioFrame") -> list["av.AudioFrame"]:
    try:
        return floats.resample(frame)
    except ValueError as error:
        raise BadMedia(f"the sound changes its rate or its channels: {error}") from error
