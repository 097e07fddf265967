"""How far speech stands above the noise of its recording, from the powers of short frames in a few bands. Pure arrays.

    power of a band  |  ▂▅█▆▂ ▃▇█▅▂  ▂▆▇▃     speech comes and goes,
                     |▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁  noise stays: what a band never goes below

The noise of a band is a low quantile of its frames, raised by what that quantile lies below the mean for noise alone;
the signal is the rest of the power. Bands have their own pauses, so a clip without a silent moment can be measured too.
What stays for the length of a clip (music, a hum, a crowd) is noise; what comes and goes (a door) is not. Within 3 dB
from 0 to 30 dB on clips of 1.5 s and more; towards 30 dB and above a recording's own floor and the breath between words
pull it down.
"""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

FRAME_SECONDS = 0.016
# Below there is hum and no speech; above nothing is left at 16 kHz.
LOWEST, HIGHEST = 80.0, 8_000.0
BAND_BINS = 16  # 1 kHz
QUANTILE = 0.02
# White noise has its mean 2.28 times above that quantile, and 1.88 times where two thirds of the frames are speech.
ABOVE_QUANTILE = 2.07
LIMITS = (-10.0, 60.0)


@dataclass(frozen=True, slots=True)
class Noise:
    """Energies, which add up over parts of a clip."""

    noise: float
    total: float

    def __add__(self, other: "Noise") -> "Noise":
        return Noise(self.noise + other.noise, self.total + other.total)

    @property
    def snr(self) -> float:
        """In dB, within LIMITS. Nothing but noise, or nothing at all, is the lowest."""
        lowest, highest = LIMITS
        signal = self.total - self.noise
        if signal <= 0:
            return lowest
        if self.noise <= 0:
            return highest
        return float(np.clip(10 * np.log10(signal / self.noise), lowest, highest))


def frame_size(rate: int) -> int:
    """Samples a frame; a multiple of 8, for which transforms are fast."""
    return max(8, round(rate * FRAME_SECONDS / 8) * 8)


def band_powers(samples: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    """[frames, bands], mean squares: a row adds up to the power of its frame, between LOWEST and HIGHEST.

    Frames overlap by half, so that no pause is missed because it lies between two of them.
    """
    size = frame_size(rate)
    window = np.hanning(size + 1)[:size].astype(np.float32)
    spectrum = np.fft.rfft(sliding_window_view(samples, size)[:: size // 2] * window)
    powers = np.square(spectrum.real, dtype=np.float32) + np.square(spectrum.imag, dtype=np.float32)
    powers *= np.float32(2 / (size * np.square(window).sum()))
    first = int(np.ceil(LOWEST * size / rate))
    end = min(size // 2, int(HIGHEST * size / rate))
    bands: NDArray[np.float32] = np.add.reduceat(powers[:, :end], range(first, end, BAND_BINS), axis=1)
    return bands


def noise_of(bands: NDArray[np.float32]) -> Noise:
    """Of frames that hold something: zeros that were put in as padding say nothing of a recording's noise."""
    if not len(bands):
        return Noise(0.0, 0.0)
    floor = np.quantile(bands, QUANTILE, axis=0).sum(dtype=np.float64) * ABOVE_QUANTILE
    return Noise(float(floor) * len(bands), float(bands.sum(dtype=np.float64)))
