"""Distances that a video stores as 12-bit codes: parameters of the encoding, and decoding."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

_MAX_CODE = 4095
_MM_PER_M = 1000.0
_MAX_MM = 65535


@dataclass(frozen=True)
class Quantised:
    """Encoding of distances, in metres, as codes.

    Attributes:
        nearest: Distance of code 0.
        farthest: Distance of the largest code.
        shift: Offset added before the logarithm is taken.
        logarithmic: Whether equal steps of the code are equal ratios of the distance.
    """

    nearest: float = 0.01
    farthest: float = 10.0
    shift: float = 3.5
    logarithmic: bool = True

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> "Quantised":
        """Read the encoding from a video's description, with LeRobot's defaults."""
        return cls(
            float(info.get("video.depth_min", cls.nearest)),
            float(info.get("video.depth_max", cls.farthest)),
            float(info.get("video.shift", cls.shift)),
            bool(info.get("video.use_log", cls.logarithmic)),
        )


def distances(codes: NDArray[np.uint16], quantised: Quantised, unit: Literal["mm", "m"]) -> NDArray[np.float32]:
    """Return the distances of codes, computed as LeRobot does, in float32 by torch: numpy's exp rounds differently.

    Args:
        codes: Codes from 0 to 4095.
        quantised: Encoding of the distances.
        unit: Unit of the result; whole millimetres, or metres.
    """
    import torch

    low = quantised.nearest
    high = quantised.farthest
    if quantised.logarithmic:
        low = math.log(low + quantised.shift)
        high = math.log(high + quantised.shift)
    metres = torch.from_numpy(codes.astype(np.float32)) * ((high - low) / _MAX_CODE) + low
    if quantised.logarithmic:
        metres = torch.exp(metres) - quantised.shift
    metres = metres.clamp(quantised.nearest, quantised.farthest)
    if unit == "mm":
        metres = (metres * _MM_PER_M).round().clamp(0, _MAX_MM)
    found: NDArray[np.float32] = metres.numpy()
    return found
