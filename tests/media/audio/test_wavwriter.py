"""What is written as WAV is heard as it was."""

import io

import numpy as np
import pytest
import soundfile

from penstock.media.audio.wavwriter import wav_bytes


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100])
def test_every_16_bit_sample_comes_out_bit_for_bit(rate: int) -> None:
    samples = np.arange(-(2**15), 2**15, dtype=np.int32).astype(np.int16)
    data = wav_bytes(samples / np.float32(2**15), rate)
    heard, heard_rate = soundfile.read(io.BytesIO(data), dtype="int16")
    assert heard_rate == rate
    assert np.array_equal(heard, samples)


def test_samples_between_are_rounded_and_samples_beyond_full_scale_are_clipped() -> None:
    levels = np.array([0.4, 0.6, -0.6, 40_000, -40_000], np.float32)
    heard, _ = soundfile.read(io.BytesIO(wav_bytes(levels / 2**15, 16_000)), dtype="int16")
    assert heard.tolist() == [0, 1, -1, 32_767, -32_768]


def test_no_samples_are_a_file_too() -> None:
    heard, _ = soundfile.read(io.BytesIO(wav_bytes(np.zeros(0, np.float32), 16_000)))
    assert len(heard) == 0
