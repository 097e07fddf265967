"""Lets ``import torchvision`` pass beside a torch that lacks its compiled operators: Mosaic Streaming imports it."""

import torch

_library = torch.library.Library("torchvision", "DEF")


def declare() -> None:
    """To be called before anything imports torchvision."""
    for name in ("nms", "qnms"):
        _library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
