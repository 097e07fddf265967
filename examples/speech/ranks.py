"""Training in several processes: torchrun starts them, these few lines keep them in step."""

import os
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

T = TypeVar("T")


def start() -> torch.device:
    """Join the other ranks, if torchrun started any; returns the device to train on."""
    torch.set_num_threads(1)  # sums in the same order on any machine; the other cores make batches
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("nccl" if cuda else "gloo")
    return torch.device("cuda" if cuda else "cpu")


def stop() -> None:
    if dist.is_initialized():
        last = dist.barrier(async_op=True)  # holds the last tensors of gloo, whose threads must not free them at exit
        last.wait()
        dist.destroy_process_group()


def first() -> bool:
    """Whether this is the rank that writes the checkpoints and is operated."""
    return not dist.is_initialized() or dist.get_rank() == 0


def wait() -> None:
    """Until every rank is here."""
    if dist.is_initialized():
        dist.barrier()


def shared(value: T) -> T:
    """The first rank's value, on every rank."""
    if not dist.is_initialized():
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def summed(values: Tensor) -> Tensor:
    if dist.is_initialized():
        dist.all_reduce(values)
    return values


def average_gradients(model: nn.Module) -> None:
    """What DistributedDataParallel does, in one call: two networks that take turns need no hooks then."""
    if not dist.is_initialized():
        return
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    flat = summed(torch.cat([gradient.flatten() for gradient in gradients])) / dist.get_world_size()
    for gradient, mean in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))
