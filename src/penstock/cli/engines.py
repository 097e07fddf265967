"""Options of commands whose work an engine does, and the engine that they mean."""

import os
from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.console import Terminal
from penstock.runtime.engines.engine import ALL, Engine, JobShare, ThreadEngine
from penstock.runtime.engines.local import LocalEngine
from penstock.runtime.engines.raycluster import RayEngine

_PARALLEL_BYTES = 32 << 20  # below which starting processes takes longer than it saves


class EngineName(StrEnum):
    """Engines by name."""

    local = "local"
    ray = "ray"


WithEngine = Annotated[
    EngineName,
    typer.Option("--engine", help="Engine that does the work: processes of this machine, or tasks of a Ray cluster."),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Ray cluster (--engine ray only); by default that of RAY_ADDRESS or of this machine, else a new one.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Number of processes, or of tasks in flight on Ray; by default one per core, 0 for this process alone.",
    ),
]
OfShard = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Do the share of job I of N, from 0 on, as in a SLURM array. After all jobs, run it once without --shard.",
    ),
]


def parse_share(text: str | None) -> JobShare:
    """Parse ``--shard``.

    Raises:
        ValueError: If it is no share.
    """
    try:
        return ALL if text is None else JobShare.parse(text)
    except ValueError as error:
        raise ValueError(f"--shard {error}") from None


def print_share_done(share: JobShare, did: str, where: object = None) -> None:
    """Print that a job has done its share, and what comes after all jobs.

    Args:
        share: Share of the job.
        did: What it has done, such as ``has read its share``.
        where: Folder of what it has made; None if that goes without saying.
    """
    prefix = "" if where is None else f"{where}: "
    Terminal().print(
        f"{prefix}job {share} {did}; when all jobs have, run the same command without --shard", soft_wrap=True
    )


def ray_engine(name: EngineName, address: str | None, workers: int | None) -> RayEngine | None:
    """Return the Ray engine; None for the local one.

    Args:
        name: Name of the engine.
        address: Address of the Ray cluster; None for its default.
        workers: Maximum number of tasks in flight; None for its default.

    Raises:
        ValueError: If the local engine has an address.
    """
    if name is EngineName.ray:
        return RayEngine(address, workers or None)
    if address is not None:
        raise ValueError("--address: only for --engine ray")
    return None


def local_engine(workers: int | None, *, size: int, tasks: int, at_once: int = 1) -> Engine:
    """Return an engine of this machine.

    Args:
        workers: Number of processes; None for one per core.
        size: Bytes to read. Few of them are read by threads of this process.
        tasks: Number of tasks.
        at_once: Number of tasks to make at the same time, where they mostly wait for a network.
    """
    count = len(os.sched_getaffinity(0)) if workers is None else workers
    count = min(count, tasks)
    if count <= 1 or (workers is None and size < _PARALLEL_BYTES):
        return ThreadEngine(max(1, at_once))
    return LocalEngine(count, -(-at_once // count))
