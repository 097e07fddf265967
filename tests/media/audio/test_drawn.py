"""Pictures of sounds: their outline, and a spectrogram whose rows are mels."""

import io

import numpy as np
import pytest
from PIL import Image

from penstock.media.audio.drawn import COLOURS, mel_shades, peaks
from penstock.media.image.plain import plain_png

RATE = 16_000


def tone(hertz: float, seconds: float = 1.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * RATE)) / RATE)).astype(np.float32)


@pytest.mark.parametrize("length", [0, 1, 7, 300, 16_000])
def test_peaks_are_the_extremes_of_each_column(length: int) -> None:
    sound = np.random.default_rng(0).normal(size=length).astype(np.float32)
    found = peaks(sound, 300)
    assert found.shape == (300, 2) and (found[:, 0] <= found[:, 1]).all()
    if length:
        assert (found.min(), found.max()) == (sound.min(), sound.max())


@pytest.mark.parametrize("hertz", [120.0, 440.0, 1_000.0, 3_000.0, 7_000.0])
def test_a_tone_is_a_line_at_its_pitch_in_mels(hertz: float) -> None:
    shades = mel_shades(tone(hertz), RATE, 300, 64)
    mels = 2595 * np.log10(1 + hertz / 700)
    expected = 63 - (mels / (2595 * np.log10(1 + 8_000 / 700)) * 65 - 1)
    middle = shades[:, shades.shape[1] // 2]
    assert abs(int(middle.argmax()) - expected) <= 1.5 and np.median(middle) < 60


@pytest.mark.parametrize("length", [1, 100, 16_000, 900_000])
def test_a_spectrogram_fits_its_width(length: int) -> None:
    shades = mel_shades(tone(440.0, length / RATE), RATE, 300, 64)
    assert shades.shape[0] == 64 and 1 <= shades.shape[1] <= 300 and shades.dtype == np.uint8
    assert mel_shades(np.zeros(0, np.float32), RATE, 300, 64).shape[0] == 64


def test_a_picture_is_the_png_that_pillow_reads() -> None:
    shades = np.arange(256, dtype=np.uint8).reshape(8, 32)
    image = Image.open(io.BytesIO(plain_png(shades, COLOURS)))
    assert (image.format, image.size, image.mode) == ("PNG", (32, 8), "P")
    assert (np.asarray(image.convert("RGB")) == COLOURS[shades]).all()
