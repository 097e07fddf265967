"""Rank and world size of this process, as set by its launcher, or by a device mesh."""

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


# Variables that name the number of nodes, or those of processes in all and per node.
_NODE_COUNTS = (
    ("GROUP_WORLD_SIZE", ""),
    ("WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("SLURM_STEP_NUM_NODES", ""),
    ("SLURM_JOB_NUM_NODES", ""),
)


def current() -> tuple[int, int]:
    """Return (rank, world): from torch.distributed if it is initialised, else from RANK and WORLD_SIZE, else (0, 1)."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)  # never imports torch itself
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def local(rank: int) -> int:
    """Return the number of this process on its node: LOCAL_RANK, or the rank if the launcher does not set it."""
    return int(os.environ.get("LOCAL_RANK", rank))


def nodes() -> int | None:
    """Return the number of nodes of the job as its launcher names it: torchrun, SLURM or MPI; None if none does."""
    for count, per_node in _NODE_COUNTS:
        number = os.environ.get(count, "")
        divisor = os.environ.get(per_node, "") if per_node else "1"
        if number.isdecimal() and divisor.isdecimal() and int(number) >= int(divisor) > 0:
            return int(number) // int(divisor)
    return None


class MeshRank(NamedTuple):
    """The place of this process in the data-parallel dimensions of a mesh.

    Attributes:
        rank: Rank among the processes that get different batches.
        world: Number of these processes.
        first: Whether this is the first of the processes that get the same batches.
    """

    rank: int
    world: int
    first: bool


def of_mesh(mesh: "DeviceMesh") -> MeshRank:
    """Return the place of this process in a mesh of one or more data-parallel dimensions.

    Args:
        mesh: Submesh of the data-parallel dimensions, such as ``mesh["dp"]`` or ``mesh["replicate", "shard"]``.

    Raises:
        ValueError: If this process is not in the mesh.
    """
    place = mesh.get_coordinate()
    if place is None:
        raise ValueError("this process is not in the mesh; open the feed only in processes that train")
    rank = 0
    for coordinate, size in zip(place, mesh.shape, strict=True):
        rank = rank * size + coordinate
    # Of the submeshes with the same dimensions, one contains the first process of the whole mesh.
    whole = mesh._get_root_mesh() if hasattr(mesh, "_get_root_mesh") else mesh
    first = int(whole.mesh.min()) in mesh.mesh.flatten().tolist()
    return MeshRank(rank, mesh.size(), first)
