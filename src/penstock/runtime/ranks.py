"""Rank and world size of this process, as set by its launcher."""

import os
import sys


def current() -> tuple[int, int]:
    """Return (rank, world): from torch.distributed if it is initialised, else from RANK and WORLD_SIZE, else (0, 1)."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)  # never imports torch itself
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
