"""A tiny policy: what the robot senses and sees now -> the actions that follow. Small enough to train on a CPU."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

_VIEW = 16  # height and width to which cameras are reduced


class TinyPolicy(nn.Module):
    """Predicts a chunk of actions from the state and the cameras.

    Args:
        features: Features of the dataset by key, as in ``dataset.meta.features``.
        cameras: Keys of the cameras.
        horizon: Number of actions in a chunk.
        hidden: Width of the hidden layer.
    """

    def __init__(
        self, features: Mapping[str, Mapping[str, Any]], cameras: list[str], horizon: int, hidden: int = 256
    ) -> None:
        super().__init__()
        self._cameras = cameras
        self._state = "observation.state" if "observation.state" in features else None
        width = 3 * _VIEW * _VIEW * len(cameras)
        if self._state is not None:
            width += features[self._state]["shape"][0]
        self._horizon = horizon
        self._actions = int(features["action"]["shape"][0])
        self.layers = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, horizon * self._actions))

    def forward(self, batch: Mapping[str, Any]) -> Tensor:
        """Return the mean squared error of the actions that lie in the episode."""
        seen = [_view(batch[camera]) for camera in self._cameras]
        sensed = [] if self._state is None else [batch[self._state].float()]
        predicted = self.layers(torch.cat([*sensed, *seen], dim=1)).unflatten(1, (self._horizon, self._actions))
        inside = ~batch["action_is_pad"]
        error = (predicted - batch["action"].float()).square().mean(dim=2)
        return (error * inside).sum() / inside.sum().clamp(min=1)


def _view(frames: Tensor) -> Tensor:
    """Reduce frames [B, C, H, W], bytes or floats, to short vectors."""
    pixels = frames.float() / 255 if frames.dtype == torch.uint8 else frames
    return nn.functional.adaptive_avg_pool2d(pixels, _VIEW).flatten(1)
