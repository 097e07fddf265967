"""How close features are promised to be to those of transformers' extractor, on any CPU."""

import torch
from transformers import SeamlessM4TFeatureExtractor

EXTRACTOR = SeamlessM4TFeatureExtractor()
FAST = {"most": 5e-3, "mean": 1e-5}
FAST_AT_WORST = {"most": 1e-2, "mean": 1e-5}  # with the value in 10⁷ whose bin is nearly empty by chance
EXACT = {"most": 2e-5, "mean": 1e-6}
ENERGY = 1e-6  # of the frame's largest


def extracted(wav: torch.Tensor) -> torch.Tensor:
    """XCodec2's call: the extractor on each clip with 160 zeros on both sides, [B, 1, rows, 160]."""
    padded = torch.nn.functional.pad(wav, (160, 160)).numpy()
    rows = [EXTRACTOR(clip, sampling_rate=16_000, return_tensors="np")["input_features"] for clip in padded]
    return torch.stack([torch.from_numpy(row) for row in rows])


def close(ours: torch.Tensor, theirs: torch.Tensor, most: float, mean: float) -> bool:
    """Every value within ``most``, and every clip within ``mean`` in the mean."""
    difference = (ours - theirs).abs()
    return bool(difference.max() <= most and difference.mean(dim=(1, 2, 3)).max() <= mean)


def energies_close(fast: torch.Tensor, exact: torch.Tensor) -> bool:
    """Energies [B, frames, 80] within what is promised. The floor, 1, counts where a whole frame is below it."""
    largest = exact.amax(dim=2, keepdim=True).clamp(min=1.0)
    return bool(((fast - exact).abs() <= ENERGY * largest).all())
