"""soxr's resampling filter, applied in the frequency domain, block by block: the same result in half the time.

The spectrum of soxr's impulse response is its filter. With rate : 16000 = p : q, a block of p·m samples goes through an
rfft, is multiplied by the filter, and goes through an irfft of q·m samples. Frequencies above the lower Nyquist
frequency are left out, so they cannot alias. Blocks overlap by the length of the filter:

    input    |lead|      hop      |lead|
                  |lead|      hop      |lead|        lead, hop: multiples of p in, of q out

Knows nothing of files, nor of crops.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import soxr
import torch
from torch import Tensor

from penstock.media.audio.waveform import RATE
from penstock.runtime.torch_threads import one_torch_thread

REACH_SAMPLES = 112  # at the lower rate, after which soxr's HQ filter has decayed below 1e-7
LEADS_PER_BLOCK = 8  # longer blocks overlap less, shorter ones stay in the CPU cache
MAX_BLOCK_SAMPLES = 1 << 14  # rates that share no factor with 16000 would need blocks of seconds


@dataclass(frozen=True, slots=True)
class BlockFilter:
    """A filter from one rate to 16 kHz.

    Attributes:
        p: Numerator of rate / 16000 in lowest terms.
        q: Denominator of rate / 16000 in lowest terms.
        lead: Overlap on each side of a block, in 16 kHz samples, a multiple of ``q``.
        block: Length of a block in 16 kHz samples, a multiple of ``q``.
        block_in: Length of a block in input samples.
        response: Factor of each frequency, repeated for its real and imaginary part.
    """

    p: int
    q: int
    lead: int
    block: int
    block_in: int
    response: Tensor

    @property
    def hop(self) -> int:
        return self.block - 2 * self.lead

    def to_input(self, samples: int) -> int:
        return samples * self.p // self.q

    def buffer(self, samples: int) -> Tensor:
        """Return an uninitialised input buffer for ``samples`` output samples. It starts ``lead`` before them.

        Torch aligns the memory that it allocates. The rounding of a vectorised FFT may depend on the alignment.
        """
        blocks = -(-samples // self.hop)
        size = self.to_input((blocks - 1) * self.hop) + self.block_in
        return torch.empty(size, dtype=torch.float32, device="cpu")  # a trainer may have changed the defaults

    @torch.no_grad()
    def apply(self, buffer: Tensor) -> Tensor:
        """Return the output of a filled buffer. It has whole blocks, so it may be longer than requested."""
        with one_torch_thread():
            spectra = torch.fft.rfft(buffer.unfold(0, self.block_in, self.to_input(self.hop)))
            kept = torch.view_as_real(spectra).flatten(1)[:, : len(self.response)]  # as plain floats: re, im, re, im …
            kept *= self.response
            blocks: Tensor = torch.fft.irfft(spectra[:, : len(self.response) // 2], n=self.block)
            return blocks.narrow(1, self.lead, self.hop).flatten()


@lru_cache(maxsize=64)
def block_filter(rate: int) -> BlockFilter | None:
    """Return the filter for a rate, or None if its blocks would be too long."""
    common = math.gcd(rate, RATE)
    p = rate // common
    q = RATE // common
    reach = REACH_SAMPLES * max(1.0, RATE / rate)
    lead = math.ceil(reach / q) * q
    multiple = 1 << math.ceil(math.log2(LEADS_PER_BLOCK * lead / q))
    if max(p, q) * multiple > MAX_BLOCK_SAMPLES:
        return None
    bins = min(p, q) * multiple // 2 + 1
    response = _response(rate, p, q, lead, q * multiple)[:bins].repeat_interleave(2)
    return BlockFilter(p, q, lead, q * multiple, p * multiple, response)


def _response(rate: int, p: int, q: int, lead: int, block: int) -> Tensor:
    """Return soxr's factor for each frequency: the spectrum of its impulse response, which is even, hence real."""
    middle = 4 * lead // q
    impulse = np.zeros(2 * middle * p + 1)
    impulse[middle * p] = 1.0
    answer = soxr.resample(impulse, rate, RATE)
    centred = np.zeros(block)
    for offset in range(-lead, lead + 1):
        centred[offset] = answer[middle * q + offset]
    return torch.from_numpy(np.fft.rfft(centred).real.astype(np.float32))
