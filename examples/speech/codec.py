"""The networks: XCodec2 as transformers has it, in a size that trains on a laptop, and a small discriminator.

    wav   [B, n] ────────> acoustic encoder ──┐
    feats [B, 1, n/320, 160] -> semantic part ┴─> quantizer ──┬─> decoder ──> wav  [B, n]
                                                              └─> head ─────> feats [B, n/320, 160]

Knows nothing of data, losses or training.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import DacConfig, DacModel, Wav2Vec2BertConfig, Xcodec2Config, Xcodec2Model

FEATURES = 160  # of W2V-BERT, for every 320 samples
RATIOS = [4, 4, 4, 5]  # 320 samples a token: one row of features each


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The widths of the codec. ``hidden`` is a multiple of 32, for its group norms."""

    hidden: int
    layers: int
    semantic: int
    discriminator: int


@dataclass(frozen=True, slots=True)
class Decoded:
    """What comes out of the codec: the sound, and its guess of the features it was given."""

    wav: Tensor
    feats: Tensor


class Codec(nn.Module):
    """Encoder, quantizer (FSQ, one code of 65,536 a token) and decoder.

    The acoustic encoder is DAC's: XCodec2's own filters its activations, which takes eight times as long on a CPU.
    """

    def __init__(self, size: ModelSize) -> None:
        super().__init__()
        semantic = Wav2Vec2BertConfig(
            hidden_size=size.semantic,
            output_hidden_size=size.semantic,
            intermediate_size=2 * size.semantic,
            num_hidden_layers=1,
            num_attention_heads=2,
            feature_projection_input_dim=FEATURES,
        )
        acoustic = DacConfig(downsampling_ratios=RATIOS, encoder_hidden_size=size.hidden // 2 ** len(RATIOS))
        joined = size.hidden + size.semantic
        config = Xcodec2Config(
            hidden_size=size.hidden,
            intermediate_size=2 * size.hidden,
            num_hidden_layers=size.layers,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=size.hidden // 2,
            encoder_hidden_size=1,
            downsampling_ratios=RATIOS,
            quantization_dim=joined,
            semantic_model_config=semantic,
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        )
        self.xcodec2 = Xcodec2Model(config)
        self.xcodec2.acoustic_encoder = DacModel(acoustic).encoder  # type: ignore[assignment]
        for module in self.xcodec2.modules():
            if isinstance(module, nn.Conv1d | nn.Linear):  # transformers draws weights for wide layers: in narrow ones
                module.reset_parameters()  # the signal dies, and all codes are the same
        self.xcodec2.semantic_encoder.requires_grad_(False)  # as in XCodec2: only its adapter learns
        self.head = nn.Conv1d(joined, FEATURES, kernel_size=1)

    def train(self, mode: bool = True) -> "Codec":
        super().train(mode)
        self.xcodec2.semantic_encoder.eval()
        return self

    def forward(self, wav: Tensor, feats: Tensor) -> Decoded:
        made = self.xcodec2(wav.unsqueeze(1), feats.squeeze(1), output_latents=True)
        return Decoded(made.audio_values.squeeze(1), self.head(made.latents).transpose(1, 2))


class Discriminator(nn.Module):
    """Recorded or decoded? A few convolutions over spectrograms of two resolutions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.views = nn.ModuleList(_View(n_fft, width) for n_fft in (256, 1024))

    def forward(self, wav: Tensor) -> list[list[Tensor]]:
        """For each resolution the output of every layer; the last one is the verdict, above 0 for recorded."""
        return [view(wav) for view in self.views]


class _View(nn.Module):
    def __init__(self, n_fft: int, width: int) -> None:
        super().__init__()
        self.n_fft = n_fft
        self.window = nn.Buffer(torch.hann_window(n_fft), persistent=False)
        self.layers = nn.ModuleList(
            [
                nn.Conv2d(2, width, (9, 3), stride=(4, 1), padding=(4, 1)),
                nn.Conv2d(width, 2 * width, (9, 3), stride=(4, 2), padding=(4, 1)),
                nn.Conv2d(2 * width, 1, 3, padding=1),
            ]
        )

    def forward(self, wav: Tensor) -> list[Tensor]:
        spectrum = torch.stft(wav, self.n_fft, self.n_fft // 4, window=self.window, return_complex=True)
        outputs, here = [], torch.stack([spectrum.real, spectrum.imag], dim=1)
        for layer in self.layers:
            here = layer(here)
            outputs.append(here)
            here = nn.functional.leaky_relu(here, 0.1)
        return outputs
