"""What a filelist's rules ask of a clip's sound: length, clipping, silence, noise. Decodes all of it, once.

Measured is channel 0 at the file's own rate, in blocks, so that a clip of hours needs no more memory than one of a
minute, and noise may change from block to block. Knows no rule and no threshold of a rule.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.media.audio import opened
from penstock.media.errors import BadMedia
from penstock.media.snr import Noise, band_powers, frame_size, noise_of
from penstock.media.span import Span
from penstock.media.waveform import Waveform

BLOCK_SECONDS = 30
FULL_SCALE = 0.999  # a limiter's ceiling of 32,735 of 32,768 counts too
# A frame is silent this far below the clip's loud frames, whatever the gain, or when nothing would be heard at all.
LOUD_QUANTILE, SILENT_BELOW_LOUD = 0.95, 10**-3.5
INAUDIBLE = 1e-7  # −70 dB of full scale, as a mean square
PADDING = 1e-9  # −90 dB: no microphone is that quiet


@dataclass(frozen=True, slots=True)
class Quality:
    """Attributes:

    seconds: as decoded, whatever a header or a label says.
    clipping: share of samples at full scale.
    silence: share of 16 ms frames over 35 dB below the loud ones (the 95th percentile), or under −70 dB.
    snr: estimated, in dB.
    """

    seconds: float
    clipping: float
    silence: float
    snr: float


def measure(span: Span) -> Quality:
    """The quality of a whole file; :class:`BadMedia` if any of it cannot be decoded."""
    with opened(span, "first") as wave:
        return measure_waveform(wave)


def measure_waveform(wave: Waveform) -> Quality:
    blocks = -(-wave.frames // (BLOCK_SECONDS * wave.rate))
    samples = np.empty(-(-wave.frames // blocks), np.float32)  # even blocks: a short last one would tell no noise
    levels: list[NDArray[np.float32]] = []
    noise, clipped, done = Noise(0.0, 0.0), 0, 0
    for _ in range(blocks):
        block = samples[: wave.read(done, samples)]
        if not len(block):
            break  # a header may promise a little more than there is
        done += len(block)
        clipped += int(np.count_nonzero(np.abs(block) >= FULL_SCALE))
        bands = band_powers(_whole_frame(block, wave.rate), wave.rate)
        level = bands.sum(axis=1)
        levels.append(level)
        noise += noise_of(bands[level > PADDING])
    if not done:
        raise BadMedia("no sample of the audio could be decoded")
    return Quality(done / wave.rate, clipped / done, _silent_share(np.concatenate(levels)), noise.snr)


def _whole_frame(block: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    missing = frame_size(rate) - len(block)
    return np.pad(block, (0, missing)) if missing > 0 else block


def _silent_share(levels: NDArray[np.float32]) -> float:
    loud = float(np.quantile(levels, LOUD_QUANTILE))
    return float(np.mean(levels < max(loud * SILENT_BELOW_LOUD, INAUDIBLE)))
