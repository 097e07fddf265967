"""What the codec and the discriminator are judged by. Functions of tensors only."""

from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import l1_loss, relu
from transformers.audio_utils import mel_filter_bank

RATE, FFT, HOP, MELS = 16_000, 1024, 256, 64


def log_mel(wav: Tensor) -> Tensor:
    """[B, n] to [B, 64, 1 + n/256]."""
    window, filters = _mel_constants(wav.device)
    spectrum = torch.stft(wav, FFT, HOP, window=window, return_complex=True)
    power = torch.view_as_real(spectrum).square().sum(-1)  # abs() has no gradient at silence
    return (filters @ power).clamp(min=1e-5).log()


def mel_distance(made: Tensor, real: Tensor, length: Tensor) -> Tensor:
    """Mean absolute difference of log mels, a clip; frames that begin in the padding do not count."""
    difference = (log_mel(made) - log_mel(real)).abs().mean(1)
    sound = torch.arange(difference.shape[1], device=length.device) * HOP < length.unsqueeze(1)
    return (difference * sound).sum(1) / sound.sum(1).clamp(min=1)


def discriminator_loss(real: list[list[Tensor]], made: list[list[Tensor]]) -> Tensor:
    """Hinge: recorded above 1, decoded below -1."""
    views = [relu(1 - r[-1]).mean() + relu(1 + m[-1]).mean() for r, m in zip(real, made, strict=True)]
    return torch.stack(views).mean()


def adversarial_loss(made: list[list[Tensor]]) -> Tensor:
    return -torch.stack([view[-1].mean() for view in made]).mean()


def matching_loss(real: list[list[Tensor]], made: list[list[Tensor]]) -> Tensor:
    """The discriminator's inner layers see the same in both."""
    pairs = [zip(r[:-1], m[:-1], strict=True) for r, m in zip(real, made, strict=True)]
    return torch.stack([l1_loss(m, r.detach()) for pair in pairs for r, m in pair]).mean()


@cache
def _mel_constants(device: torch.device) -> tuple[Tensor, Tensor]:
    filters = mel_filter_bank(
        num_frequency_bins=FFT // 2 + 1,
        num_mel_filters=MELS,
        min_frequency=0.0,
        max_frequency=RATE / 2,
        sampling_rate=RATE,
        norm="slaney",
        mel_scale="slaney",
    )
    return torch.hann_window(FFT, device=device), torch.from_numpy(filters.T).float().to(device)
