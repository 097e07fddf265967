"""Features and mel energies of clips in both modes. Run as a program, it uses the CPU instructions that a test chooses.

ATEN_CPU_CAPABILITY=avx2 python -m tests.media.audio.both_modes WAVES RESULTS
"""

import sys

import torch

from penstock.media.audio.features import _energies, _Scratch, w2v_bert_features
from penstock.runtime.torch_threads import one_torch_thread


def both_modes(wav: torch.Tensor) -> dict[str, torch.Tensor]:
    return {
        "fast": w2v_bert_features(wav),
        "exact": w2v_bert_features(wav, torch.float64),
        "fast_energies": energies(wav, torch.float32),
        "exact_energies": energies(wav, torch.float64),
    }


def energies(wav: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """[B, frames, 80] as float64, computed in ``dtype``."""
    batch, samples = wav.shape
    scratch = _Scratch(samples, dtype, batch)
    with one_torch_thread():
        for clip, mel_groups in zip(wav, scratch.mel_groups, strict=True):
            _energies(clip, scratch, mel_groups)
    return scratch.energies.double()


if __name__ == "__main__":
    waves, results = sys.argv[1:]
    torch.save(both_modes(torch.load(waves)), results)
