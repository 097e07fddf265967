"""Samples -> a WAV file: mono, 16 bit. Knows no file system and no other encoding; needs no decoder and no torch."""

import io
import wave

import numpy as np

from penstock.media.waveform import Samples


def wav_bytes(samples: Samples, rate: int) -> bytes:
    """The bytes of a WAV file of ``samples``, where full scale is 1.0.

    Samples are rounded to 16 bit, and clipped where they are louder than full scale. Samples that were decoded from
    16 bit come out bit for bit.
    """
    pcm = np.clip(np.rint(samples * 2**15), -(2**15), 2**15 - 1).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(pcm.tobytes())
    return file.getvalue()
