"""Samples -> a WAV file: mono, 16 bit. Knows no file system and no other encoding; needs no decoder and no torch."""

import io
import wave

import numpy as np

from penstock.media.audio.waveform import Samples


def wav_bytes(samples: Samples, rate: int) -> bytes:
    """Return the bytes of a WAV file.

    Samples are rounded to 16 bit and clipped at full scale. Samples that were decoded from 16 bit are stored exactly.

    Args:
        samples: mono samples; full scale is 1.0.
        rate: samples per second.
    """
    pcm = np.clip(np.rint(samples * 2**15), -(2**15), 2**15 - 1).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(pcm.tobytes())
    return file.getvalue()
