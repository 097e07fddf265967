"""Audio files for the tests of this room: made here, or real ones from tests/data/speech."""

import io
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from penstock.media.audio.clip import open_waveform
from penstock.media.audio.resample import resampled_length
from penstock.media.span import ByteSpan, InMemory

REAL = sorted((Path(__file__).parents[2] / "data" / "speech").iterdir())


def voice(rate: int, seconds: float, channels: int = 1, seed: int = 0) -> NDArray[np.float32]:
    """[frames, channels]: harmonics that come and go over a little noise, each channel another."""
    rng = np.random.default_rng(seed)
    time = np.arange(round(rate * seconds)) / rate
    columns = []
    for channel in range(channels):
        pitch = 110 * (channel + 1)
        tones = sum(np.sin(2 * np.pi * pitch * k * time) / k for k in range(1, 8))
        columns.append(0.1 * tones * (1 + np.sin(5 * time)) + 0.01 * rng.standard_normal(len(time)))
    return np.stack(columns, axis=1).astype(np.float32)


def encode(frames: NDArray[np.float32], rate: int, form: str = "WAV", subtype: str = "PCM_16") -> bytes:
    file = io.BytesIO()
    soundfile.write(file, frames, rate, format=form, subtype=subtype)
    return file.getvalue()


def whole(data: bytes) -> NDArray[np.float32]:
    """The file as XCodec2 would load it: all of it decoded, all of it resampled, channel 0 of that."""
    frames, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    if rate != 16_000:
        frames = soxr.resample(frames, rate, 16_000)
    return np.ascontiguousarray(frames[:, 0])


class Counted(InMemory):
    """A span that remembers which bytes were asked for."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.bytes_read = 0

    def readinto(self, buffer: memoryview, offset: int) -> None:
        self.bytes_read += len(buffer)
        super().readinto(buffer, offset)


def clip_length(span: ByteSpan) -> int:
    """Return the length of a clip in 16 kHz samples, from its header."""
    with open_waveform(span, "first") as wave:
        return resampled_length(wave.frames, wave.rate)
