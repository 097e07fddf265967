"""One loader, one job, one process: samples per second, first batch, memory held. JSON to stdout.

python benchmarks/chat_measure.py threads text 2 bench-data/chat --seconds 5
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from held import cpu_seconds, held_megabytes

WARM_BATCHES = 8


def measure(loader: str, job: str, workers: int, folder: Path, seconds: float) -> dict[str, float]:
    import chat_ours
    import chat_peers
    import torch

    torch.set_num_threads(1)
    make = {**chat_peers.LOADERS[job], **chat_ours.LOADERS[job]}[loader]
    began = time.perf_counter()
    batches = make(folder, workers)
    next(batches)
    ready = time.perf_counter()
    for _ in range(WARM_BATCHES):
        next(batches)
    made = 0
    start = time.perf_counter()
    cpu = cpu_seconds()
    while time.perf_counter() - start < seconds:
        made += len(next(batches)["input_ids"])
    spent = time.perf_counter() - start
    cpu = cpu_seconds() - cpu
    return {
        "samples_per_second": made / spent,
        "cpu_us_per_sample": 1e6 * cpu / made,
        "first_batch_seconds": ready - began,
        "held_megabytes": held_megabytes(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loader")
    parser.add_argument("job", choices=["text", "image"])
    parser.add_argument("workers", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    found = measure(options.loader, options.job, options.workers, options.folder, options.seconds)
    print(json.dumps(found), flush=True)
    os._exit(0)  # worker processes of peers are slow to end


if __name__ == "__main__":
    main()
