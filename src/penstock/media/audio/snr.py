"""The signal-to-noise ratio of a recording of speech, from the powers of short frames in a few bands. Pure arrays.

    power of a band  |  ▂▅█▆▂ ▃▇█▅▂  ▂▆▇▃     speech comes and goes,
                     |▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁  noise stays: a band never goes below it

The noise of a band is a low quantile of its frames, multiplied by the ratio of mean to that quantile for pure noise.
The signal is the rest of the power. Bands pause at different times, so a clip without a silent moment can be measured.
Sound that lasts for the whole clip (music, a hum, a crowd) is noise; sound that comes and goes (a door) is not. The
error is within 3 dB from 0 to 30 dB on clips of 1.5 s and more. Near 30 dB and above, the noise floor of the recording
and the breath between words lower the estimate.
"""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

FRAME_SECONDS = 0.016
# Below the lowest frequency there is hum and no speech; audio at 16 kHz has nothing above the highest.
LOWEST_HERTZ = 80.0
HIGHEST_HERTZ = 8_000.0
BAND_BINS = 16  # 1 kHz
QUANTILE = 0.02
# The mean of white noise is 2.28 times that quantile, and 1.88 times if two thirds of the frames are speech.
ABOVE_QUANTILE = 2.07
SNR_LIMITS_DB = (-10.0, 60.0)


@dataclass(frozen=True, slots=True)
class Noise:
    """Energy of the noise, and of all sound. Energies add up over parts of a clip."""

    noise: float
    total: float

    def __add__(self, other: "Noise") -> "Noise":
        return Noise(self.noise + other.noise, self.total + other.total)

    @property
    def snr(self) -> float:
        """The ratio in dB, within SNR_LIMITS_DB. Noise alone, or nothing at all, gives the lowest."""
        lowest, highest = SNR_LIMITS_DB
        signal = self.total - self.noise
        if signal <= 0:
            return lowest
        if self.noise <= 0:
            return highest
        return float(np.clip(10 * np.log10(signal / self.noise), lowest, highest))


def frame_size(rate: int) -> int:
    """Return the samples per frame: a multiple of 8, for which transforms are fast."""
    return max(8, round(rate * FRAME_SECONDS / 8) * 8)


def band_powers(samples: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    """Return the mean square of each band of each frame.

    Frames overlap by half, so that a pause between two frames is not missed.

    Returns:
        Powers, shape (frames, bands). A row adds up to the power of its frame between LOWEST_HERTZ and HIGHEST_HERTZ.
    """
    size = frame_size(rate)
    window = np.hanning(size + 1)[:size].astype(np.float32)
    spectrum = np.fft.rfft(sliding_window_view(samples, size)[:: size // 2] * window)
    powers = np.square(spectrum.real, dtype=np.float32) + np.square(spectrum.imag, dtype=np.float32)
    powers *= np.float32(2 / (size * np.square(window).sum()))
    first = int(np.ceil(LOWEST_HERTZ * size / rate))
    end = min(size // 2, int(HIGHEST_HERTZ * size / rate))
    bands: NDArray[np.float32] = np.add.reduceat(powers[:, :end], range(first, end, BAND_BINS), axis=1)
    return bands


def noise_of(bands: NDArray[np.float32]) -> Noise:
    """Estimate the noise.

    Args:
        bands: Result of ``band_powers`` without frames of padding, as zeros are not noise of the recording.
    """
    if not len(bands):
        return Noise(0.0, 0.0)
    floor = np.quantile(bands, QUANTILE, axis=0).sum(dtype=np.float64) * ABOVE_QUANTILE
    return Noise(float(floor) * len(bands), float(bands.sum(dtype=np.float64)))
