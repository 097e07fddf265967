"""Any part of a waveform at 16 kHz, as if the whole had been resampled by soxr and then cut. Knows no file format.

With rate : 16000 = p : q in lowest terms, input frame k·p is exactly at output sample k·q. A part is read from a
multiple of p on, with a margin for the filter on both sides, resampled, and cut:

    input   ...|kp      |<- margin ->|<------ crop ------>|<- margin ->|...
    output     |kq                   |start ... start + n |
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from penstock.media.audio.waveform import RATE, Samples, Waveform

if TYPE_CHECKING:
    from penstock.media.audio.block_filter import BlockFilter

# Largest difference to the same samples of the whole file resampled by soxr, full scale 1.0: float32 rounding, and what
# soxr passes of frequencies above the new Nyquist. For rates that share no factor with 16000, soxr's clock rounds, too.
TOLERANCE = 1e-5


def resampled_length(frames: int, rate: int) -> int:
    """Return the number of 16 kHz samples of the whole file, as soxr rounds it (half up)."""
    return (2 * frames * RATE + rate) // (2 * rate)


def read_resampled(wave: Waveform, start: int, out: Samples) -> int:
    """Fill ``out`` with 16 kHz samples from ``start`` on.

    Returns:
        Number of samples filled, less than the length of ``out`` only if the audio ends.
    """
    if wave.rate == RATE:
        return wave.read(start, out)
    from penstock.media.audio.block_filter import block_filter  # imports torch, which clips at 16 kHz do not need

    blocks = block_filter(wave.rate)
    return _by_soxr(wave, start, out) if blocks is None else _by_blocks(wave, blocks, start, out)


def _by_blocks(wave: Waveform, blocks: "BlockFilter", start: int, out: Samples) -> int:
    wanted = max(0, min(len(out), resampled_length(wave.frames, wave.rate) - start))
    origin = max(blocks.lead, start - start % blocks.q)
    buffer = blocks.buffer(max(0, start - origin) + wanted)
    first = blocks.to_input(origin - blocks.lead)
    last = min(wave.frames, -(-(start + wanted + blocks.lead) * blocks.p // blocks.q))
    part = buffer.numpy()
    count = wave.read(first, part[: last - first])
    part[count:] = 0.0  # silence after the end of the file
    valid = wanted
    if count < last - first:
        valid = max(0, min(wanted, resampled_length(first + count, wave.rate) - start))
    head = min(valid, max(0, origin - start))
    if head:  # soxr treats the beginning of a file differently
        import soxr

        beginning = part[: min(count, blocks.to_input(2 * blocks.lead))]
        out[:head] = soxr.resample(beginning, wave.rate, RATE)[start : start + head]
    out[head:valid] = blocks.apply(buffer).numpy()[start + head - origin :][: valid - head]
    return valid


def _by_soxr(wave: Waveform, start: int, out: Samples) -> int:
    import soxr

    from penstock.media.audio.block_filter import REACH_SAMPLES

    common = math.gcd(wave.rate, RATE)
    p = wave.rate // common
    q = RATE // common
    margin = math.ceil(REACH_SAMPLES * max(1.0, RATE / wave.rate))
    first = max(0, (start - margin) // q)
    last = -(-(start + len(out) + margin) // q)
    part = np.empty(min(wave.frames, last * p) - first * p, np.float32)
    count = wave.read(first * p, part)
    row = soxr.resample(part[:count], wave.rate, RATE)[start - first * q :][: len(out)]
    out[: len(row)] = row
    return len(row)
