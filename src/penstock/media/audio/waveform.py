"""The interface of audio decoders: any part of a file as mono samples at the file's rate. Knows no crop."""

from collections.abc import Callable
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.media.errors import BadMedia

RATE = 16_000  # Hz, of all audio in batches
Samples = NDArray[np.float32]
Mix = Literal["first", "mean"]  # channel 0, as XCodec2 takes it, or the mean of all channels

# Outside these limits a header is damaged or hostile; within them the filter of a resampler stays small.
MIN_RATE = 1_000  # Hz
MAX_RATE = 768_000  # Hz
MAX_FRAMES = 1 << 40
BLOCK_SAMPLES = 1 << 20  # decoded at a time if there are channels to mix: bounds memory for any number of channels
MAX_AMPLITUDE = 2.0**24  # full scale is 1.0; the spectrum of much louder samples is not finite in float32


class Waveform(Protocol):
    """The audio of a file."""

    @property
    def rate(self) -> int:
        """Samples per second and channel."""
        ...

    @property
    def frames(self) -> int:
        """Samples per channel, according to the header."""
        ...

    def read(self, start: int, out: Samples) -> int:
        """Fill ``out`` with mono samples from frame ``start`` on.

        Returns:
            Number of samples, less than the length of ``out`` only if the audio ends.
        """
        ...


def check_header(rate: int, channels: int, frames: int) -> None:
    """Raise :class:`BadMedia` for implausible values, before memory is allocated for them."""
    if not MIN_RATE <= rate <= MAX_RATE:
        raise BadMedia(f"the header gives a sample rate of {rate} Hz; {MIN_RATE} to {MAX_RATE} Hz can be read")
    if channels < 1:
        raise BadMedia(f"the header gives {channels} channels; at least 1 is needed")
    if frames < 1:
        raise BadMedia("the file holds 0 samples of audio")
    if frames > MAX_FRAMES:
        raise BadMedia(f"the header gives {frames} samples, more than any file holds: its length is not known")


def check_finite(samples: Samples) -> None:
    """Raise :class:`BadMedia` for samples that are not finite or far too loud."""
    loudest = np.abs(samples).max(initial=0.0)
    if not loudest <= MAX_AMPLITUDE:  # also true of NaN
        too_loud = f"beyond ±{MAX_AMPLITUDE:,.0f}, where full scale is 1"
        reason = too_loud if np.isfinite(loudest) else "not finite (NaN or infinity)"
        raise BadMedia(f"the audio has samples that are {reason}")


def read_mixed(read: Callable[[Samples], int], channels: int, mix: Mix, out: Samples) -> int:
    """Fill ``out`` with mono samples.

    Args:
        read: Function that fills an array of shape (n, channels), or (n,) for one channel, and returns the number of
            frames it filled.
        channels: Number of channels.
        mix: Channel to use: the first, or the mean of all.
        out: Array to fill.

    Returns:
        Number of samples filled.
    """
    if channels == 1:
        return read(out)
    block = np.empty((max(1, BLOCK_SAMPLES // channels), channels), np.float32)
    done = 0
    while done < len(out) and (count := read(block[: len(out) - done])):
        mix_down(block[:count], mix, out[done : done + count])
        done += count
    return done


def mix_down(frames: NDArray[np.number], mix: Mix, out: Samples) -> None:
    """Convert samples of any type, shape (n, channels), to mono float32, shape (n,), without scaling."""
    if mix == "first" or frames.shape[1] == 1:
        out[:] = frames[:, 0]
    else:
        np.mean(frames, axis=1, dtype=np.float32, out=out)
