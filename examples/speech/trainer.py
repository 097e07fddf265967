"""One step of training a codec against a discriminator. Knows batches; not where they come from, nor when to stop."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

import ranks
from codec import Codec, Discriminator, ModelSize
from losses import adversarial_loss, discriminator_loss, matching_loss, mel_distance

MEL, SEMANTIC, ADVERSARIAL, MATCHING = 15.0, 5.0, 1.0, 1.0  # what each loss of the codec weighs
MAX_NORM = 1.0  # of the gradients


class Trainer:
    """Codec, discriminator and their optimizers. Every draw follows from (seed, step), so that a step can be redone."""

    def __init__(self, size: ModelSize, *, seed: int, device: torch.device) -> None:
        torch.manual_seed(seed)
        self._seed, self._device = seed, device
        self.codec = Codec(size).to(device)
        self.discriminator = Discriminator(size.discriminator).to(device)
        self._optimizers = {
            "codec": torch.optim.AdamW(self.codec.parameters(), betas=(0.8, 0.9)),
            "discriminator": torch.optim.AdamW(self.discriminator.parameters(), betas=(0.8, 0.9)),
        }

    def step(self, batch: Mapping[str, Any], lr: float) -> dict[str, float]:
        """Learn from one batch; returns the losses."""
        torch.manual_seed(self._seed + batch["step"])  # dropout: the same after a resume
        wav, feats, length = self._moved(batch)
        made = self.codec.train()(wav, feats)
        judged = discriminator_loss(self.discriminator(wav), self.discriminator(made.wav.detach()))
        self._learn("discriminator", self.discriminator, judged, lr)

        seen_real, seen_made = self.discriminator(wav), self.discriminator(made.wav)
        losses = {
            "mel": mel_distance(made.wav, wav, length).mean(),
            "semantic": mse_loss(made.feats, feats.squeeze(1)),
            "adversarial": adversarial_loss(seen_made),
            "matching": matching_loss(seen_real, seen_made),
        }
        weights = {"mel": MEL, "semantic": SEMANTIC, "adversarial": ADVERSARIAL, "matching": MATCHING}
        self._learn("codec", self.codec, sum(weights[name] * loss for name, loss in losses.items()), lr)
        return {name: loss.item() for name, loss in (losses | {"discriminator": judged}).items()}

    def _learn(self, name: str, network: nn.Module, loss: Any, lr: float) -> None:
        optimizer = self._optimizers[name]
        optimizer.zero_grad()
        loss.backward()
        ranks.average_gradients(network)
        nn.utils.clip_grad_norm_(network.parameters(), MAX_NORM)
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()

    @torch.no_grad()
    def mel(self, batch: Mapping[str, Any]) -> Tensor:
        """The distance of each clip of a batch from its decoding."""
        wav, feats, length = self._moved(batch)
        return mel_distance(self.codec.eval()(wav, feats).wav, wav, length)

    def _moved(self, batch: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
        wav, feats, length = (batch[name].to(self._device) for name in ("wav", "feats", "length"))
        return wav, feats, length

    def state_dict(self) -> dict[str, Any]:
        optimizers = {name: optimizer.state_dict() for name, optimizer in self._optimizers.items()}
        networks = {"codec": self.codec.state_dict(), "discriminator": self.discriminator.state_dict()}
        return networks | {"optimizers": optimizers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.codec.load_state_dict(state["codec"])
        self.discriminator.load_state_dict(state["discriminator"])
        for name, optimizer in self._optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
