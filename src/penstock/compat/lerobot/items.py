"""Batches of the robot recipe -> items as LeRobot's map-style dataset returns them: keys, types and shapes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from penstock.compat.randomness import seeded
from penstock.plan.draws import key as draw_key
from penstock.readers.lerobot.dataset import Dataset


class FrameItems:
    """Makes items of batches.

    Args:
        dataset: Metadata of the dataset.
        deltas: Windows by feature, in seconds.
        transforms: Function of the frames of each camera, except depth cameras.
        return_uint8: Whether video frames stay uint8.
        seed: Seed of random transforms.
    """

    def __init__(
        self,
        dataset: Dataset,
        deltas: Mapping[str, Sequence[float]],
        transforms: Callable[[torch.Tensor], torch.Tensor] | None,
        return_uint8: bool,
        seed: int,
    ) -> None:
        self._features = dataset.info.features
        self._deltas = deltas
        self.transforms = transforms
        self._return_uint8 = return_uint8
        self._seed = seed
        videos = dataset.info.of_kind("video")
        self._keys = (*videos, *(key for key in self._features if key not in videos))

    def of(self, batch: dict[str, Any], epoch: int) -> Iterator[dict[str, Any]]:
        """Yield the items of a batch."""
        for index, row in enumerate(batch["rows"].tolist()):
            item = {key: self._value(key, batch[key][index]) for key in self._keys if key in batch}
            item |= {f"{key}_is_pad": batch[f"{key}_is_pad"][index] for key in self._deltas}
            item["task"] = batch["task"][index]
            if self.transforms is not None:
                with seeded(draw_key(self._seed, "transform", epoch, row)):
                    for key in self._keys:
                        if self._features[key].kind != "values" and not self._features[key].is_depth:
                            item[key] = self.transforms(item[key])
            yield item

    def _value(self, key: str, value: Any) -> Any:
        feature = self._features[key]
        if feature.kind == "values":
            return _as_listed(value) if isinstance(value, torch.Tensor) else value
        if feature.kind == "video" and len(self._deltas.get(key, ())) == 1:
            value = value[0]  # as LeRobot does with videos, and only with them
        if feature.is_depth or (self._return_uint8 and feature.kind == "video"):
            return value
        return value.to(torch.float32) / 255


def _as_listed(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the type that torch gives to a list of such numbers."""
    if value.dtype.is_floating_point:
        return value.to(torch.float32)
    return value if value.dtype == torch.bool else value.to(torch.int64)
