"""A transformer that is small enough to train in seconds, for ``penstock demo chat``. Imports torch."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu, scaled_dot_product_attention

WIDTH = 64
HEADS = 4
LAYERS = 2
SOUND_PARTS = 16
SOUND_BANDS = 32


class ChatModel(nn.Module):
    """Reads packs: a token sees the tokens before it in its own sample. A medium takes the place of its token.

    Args:
        vocabulary: Number of tokens.
        length: Maximum length of a sample, in tokens.
        image_token: Token that stands for an image.
        audio_token: Token that stands for a sound.
        image_size: Height and width of images.
    """

    def __init__(self, vocabulary: int, length: int, image_token: int, audio_token: int, image_size: int) -> None:
        super().__init__()
        self._image_token = image_token
        self._audio_token = audio_token
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Embedding(length, WIDTH)
        self.image = nn.Linear(3 * image_size**2, WIDTH)
        self.audio = nn.Linear(SOUND_PARTS * SOUND_BANDS, WIDTH)
        self.layers = nn.ModuleList(_Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, batch: Mapping[str, Any]) -> Tensor:
        """Return the score of each token as the next one, [B, T, vocabulary]."""
        ids: Tensor = batch["input_ids"]
        sequences: Tensor = batch["sequence_ids"]
        states = self.tokens(ids) + self.positions(batch["position_ids"])
        if "images" in batch:  # in the order of the rows, and within a row in that of the text: as the tokens are
            states[ids == self._image_token] += self.image(batch["images"].flatten(1))
        if "audio" in batch:
            states[ids == self._audio_token] += self.audio(_bands(batch["audio"]))
        same = sequences[:, None, :, None] == sequences[:, None, None, :]
        seen = same & torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
        for layer in self.layers:
            states = layer(states, seen)
        scores: Tensor = self.norm(states) @ self.tokens.weight.T
        return scores


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.LayerNorm(WIDTH)
        self.looks = nn.Linear(WIDTH, 3 * WIDTH)
        self.mixes = nn.Linear(WIDTH, WIDTH)
        self.between = nn.LayerNorm(WIDTH)
        self.widens = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrows = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, states: Tensor, seen: Tensor) -> Tensor:
        rows, length, _ = states.shape
        parts = self.looks(self.before(states)).view(rows, length, 3, HEADS, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        looked = scaled_dot_product_attention(query, key, value, attn_mask=seen)
        states = states + self.mixes(looked.transpose(1, 2).reshape(rows, length, -1))
        changed: Tensor = states + self.narrows(relu(self.widens(self.between(states))))
        return changed


def _bands(sounds: Tensor) -> Tensor:
    """Return the loudness of some pitches in each of some parts of sounds, [N, parts * bands]."""
    parts = sounds[:, : sounds.shape[1] // SOUND_PARTS * SOUND_PARTS].view(len(sounds), SOUND_PARTS, -1)
    return torch.log1p(torch.fft.rfft(parts).abs()[..., :SOUND_BANDS]).flatten(1)


class Trainer:
    """A model and its optimizer. Equal batches give equal weights."""

    def __init__(self, model: ChatModel) -> None:
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def step(self, batch: Mapping[str, Any]) -> tuple[float, float]:
        """Train on a batch. Returns the loss, and the share of trained tokens that were predicted right."""
        scores = self.model(batch)[:, :-1]
        labels: Tensor = batch["labels"][:, 1:]
        loss = cross_entropy(scores.flatten(0, 1), labels.flatten())
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # of torch
        self.optimizer.step()
        trained = labels != -100
        right = (scores.argmax(-1) == labels)[trained].float().mean()
        return float(loss.detach()), float(right)

    def state(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


def equal_weights(first: ChatModel, second: ChatModel) -> bool:
    """Return whether two models are the same, bit for bit."""
    return all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
