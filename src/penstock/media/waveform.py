"""What every audio decoder offers: mono samples at the file's own rate, any part of them. Knows no crop."""

from collections.abc import Callable
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.media.errors import BadMedia

RATE = 16_000  # of all that is handed out
Samples = NDArray[np.float32]
Mix = Literal["first", "mean"]  # channel 0, as XCodec2 takes it, or the mean of all channels

# Beyond these a header is damaged or hostile; within them a resampler's filter stays small.
MIN_RATE, MAX_RATE = 1_000, 768_000
MAX_FRAMES = 1 << 40
BLOCK = 1 << 20  # samples decoded at once when there are channels to mix: bounds memory for any channel count
LOUDEST = 2.0**24  # full scale is 1.0; a spectrum of much louder samples is no longer finite in float32


class Waveform(Protocol):
    @property
    def rate(self) -> int: ...

    @property
    def frames(self) -> int:
        """How many samples a channel the header promises."""
        ...

    def read(self, start: int, out: Samples) -> int:
        """Fill ``out`` with mono samples from frame ``start`` on; returns how many, fewer only where the audio ends."""
        ...


def check_header(rate: int, channels: int, frames: int) -> None:
    """Refuse what no speech file says of itself, before anything is allocated by it."""
    if not MIN_RATE <= rate <= MAX_RATE:
        raise BadMedia(f"the header gives a sample rate of {rate} Hz; {MIN_RATE} to {MAX_RATE} Hz can be read")
    if channels < 1:
        raise BadMedia(f"the header gives {channels} channels; at least 1 is needed")
    if frames < 1:
        raise BadMedia("the file holds 0 samples of audio")
    if frames > MAX_FRAMES:
        raise BadMedia(f"the header gives {frames} samples, which no file holds: its length is not known")


def check_finite(samples: Samples) -> None:
    loudest = np.abs(samples).max(initial=0.0)
    if not loudest <= LOUDEST:  # also true of NaN
        reason = (
            f"beyond ±{LOUDEST:,.0f}, where full scale is 1" if np.isfinite(loudest) else "not finite (NaN or infinity)"
        )
        raise BadMedia(f"the audio has samples that are {reason}")


def read_mixed(read: Callable[[Samples], int], channels: int, mix: Mix, out: Samples) -> int:
    """Fill ``out`` with mono from ``read``, which fills [n, channels], or [n] of one, and returns the frames it had."""
    if channels == 1:
        return read(out)
    block = np.empty((max(1, BLOCK // channels), channels), np.float32)
    done = 0
    while done < len(out) and (count := read(block[: len(out) - done])):
        mix_down(block[:count], mix, out[done : done + count])
        done += count
    return done


def mix_down(frames: NDArray[np.number], mix: Mix, out: Samples) -> None:
    """[n, channels] of any sample type to float32 [n], without scaling."""
    if mix == "first" or frames.shape[1] == 1:
        out[:] = frames[:, 0]
    else:
        np.mean(frames, axis=1, dtype=np.float32, out=out)
