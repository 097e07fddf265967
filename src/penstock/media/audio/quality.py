"""The quality of a clip, for the rules of a filelist: length, clipping, silence, noise. Decodes the clip once.

Channel 0 is measured at the rate of the file, in blocks: a clip of hours needs no more memory than one of a minute, and
noise may change from block to block. Knows no rule and no threshold of a rule.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.media.audio.clip import open_waveform
from penstock.media.audio.snr import Noise, band_powers, frame_size, noise_of
from penstock.media.audio.waveform import Waveform
from penstock.media.errors import BadMedia
from penstock.media.span import ByteSpan

BLOCK_SECONDS = 30
FULL_SCALE = 0.999  # includes a limiter's ceiling of 32,735 of 32,768
# A frame is silent this far below the loud frames of the clip, whatever the gain, or if it is inaudible.
LOUD_QUANTILE = 0.95
SILENT_BELOW_LOUD = 10**-3.5
INAUDIBLE_POWER = 1e-7  # −70 dB of full scale, as a mean square
PADDING_POWER = 1e-9  # −90 dB: no microphone is that quiet


@dataclass(frozen=True, slots=True)
class Quality:
    """The measurements of one clip.

    Attributes:
        seconds: Duration of the decoded audio, which a header or a label may contradict.
        clipping: Share of samples at full scale.
        silence: Share of 16 ms frames over 35 dB below the loud ones (the 95th percentile), or under −70 dB.
        snr: Estimated signal-to-noise ratio in dB.
    """

    seconds: float
    clipping: float
    silence: float
    snr: float


def measure(span: ByteSpan) -> Quality:
    """Measure a whole file.

    Raises:
        BadMedia: If any of it cannot be decoded.
    """
    with open_waveform(span, "first") as wave:
        return measure_waveform(wave)


def measure_waveform(wave: Waveform) -> Quality:
    """Measure a whole waveform; see ``measure``."""
    blocks = -(-wave.frames // (BLOCK_SECONDS * wave.rate))
    samples = np.empty(-(-wave.frames // blocks), np.float32)  # even blocks: a short one has too little noise
    levels: list[NDArray[np.float32]] = []
    noise = Noise(0.0, 0.0)
    clipped = 0
    done = 0
    for _ in range(blocks):
        block = samples[: wave.read(done, samples)]
        if not len(block):
            break  # a header may give a few more samples than there are
        done += len(block)
        clipped += int(np.count_nonzero(np.abs(block) >= FULL_SCALE))
        bands = band_powers(_whole_frame(block, wave.rate), wave.rate)
        level = bands.sum(axis=1)
        levels.append(level)
        noise += noise_of(bands[level > PADDING_POWER])
    if not done:
        raise BadMedia("no sample of the audio could be decoded")
    return Quality(done / wave.rate, clipped / done, _silent_share(np.concatenate(levels)), noise.snr)


def _whole_frame(block: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    missing = frame_size(rate) - len(block)
    return np.pad(block, (0, missing)) if missing > 0 else block


def _silent_share(levels: NDArray[np.float32]) -> float:
    loud = float(np.quantile(levels, LOUD_QUANTILE))
    return float(np.mean(levels < max(loud * SILENT_BELOW_LOUD, INAUDIBLE_POWER)))
