"""One loader in one process: samples per second, CPU time, first batch, memory held. A line of JSON per job to stdout.

python benchmarks/robot_measure.py threads 2 bench-data/robot 96-h264/single --seconds 3
"""

import argparse
import json
import os
import time
from importlib import import_module
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

from held import cpu_seconds, held_megabytes
from robot_jobs import JOBS, Job

MODULES = {"map": "robot_peers", "streaming": "robot_peers", "lance": "robot_peers"}


def measure(loader: str, job: Job, workers: int, folder: Path, seconds: float) -> dict[str, float]:
    """Imports are not counted. The first batches, by which workers and decoders start, count for nothing else."""
    import torch

    torch.set_num_threads(1)
    make = import_module(MODULES.get(loader, "robot_ours")).LOADERS[loader]
    began = time.perf_counter()
    batches = make(folder, job, workers)
    next(batches)
    ready = time.perf_counter()
    while time.perf_counter() - ready < seconds / 3:
        next(batches)
    made = 0
    cpu = cpu_seconds()
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        made += len(next(batches)["index"])
    spent = time.perf_counter() - start
    return {
        "samples_per_second": made / spent,
        "cpu_us_per_sample": 1e6 * (cpu_seconds() - cpu) / made,
        "first_batch_seconds": ready - began,
        "held_megabytes": held_megabytes(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loader")
    parser.add_argument("workers", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("jobs", nargs="+", choices=JOBS)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    for job in options.jobs:
        found = measure(options.loader, Job.named(job), options.workers, options.folder, options.seconds)
        print(json.dumps(found), flush=True)
    os._exit(0)  # some loaders' threads and workers are slow to end


if __name__ == "__main__":
    main()
