"""Any part of a waveform at 16 kHz, as if the whole had been resampled and then cut. Knows no file format.

With rate : 16000 = p : q in lowest terms, input frame k·p falls on output sample k·q exactly. So a part is read from
a multiple of p on, with a margin for the filter on both sides, resampled, and cut:

    input   ...|kp      |<- margin ->|<------ crop ------>|<- margin ->|...
    output     |kq                   |start ... start + n |
"""

import math

import numpy as np
import soxr

from penstock.media.waveform import Samples, Waveform

RATE = 16_000
# Samples of the lower rate on either side. soxr's HQ filter is quiet (below 1e-7) from half of that on.
MARGIN = 256
# Largest difference to the same samples of the resampled whole, full scale 1.0: float32 rounding, as soxr's blocks fall
# elsewhere; for rates that share no factor with 16000 its clock rounds too.
TOLERANCE = 1e-5


def resampled_length(frames: int, rate: int) -> int:
    """How many 16 kHz samples soxr makes of the whole file: rounded, halves up."""
    return (2 * frames * RATE + rate) // (2 * rate)


def read_resampled(wave: Waveform, start: int, out: Samples) -> int:
    """Fill ``out`` with 16 kHz samples from ``start`` on; the number filled is less only where the audio ends."""
    if wave.rate == RATE:
        return wave.read(start, out)
    common = math.gcd(wave.rate, RATE)
    p, q = wave.rate // common, RATE // common
    margin = MARGIN * max(1, -(-RATE // wave.rate))
    first = max(0, (start - margin) // q)
    last = -(-(start + len(out) + margin) // q)
    part = np.empty(min(wave.frames, last * p) - first * p, np.float32)
    count = wave.read(first * p, part)
    row = soxr.resample(part[:count], wave.rate, RATE)[start - first * q :][: len(out)]
    out[: len(row)] = row
    return len(row)
