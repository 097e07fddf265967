"""One loader, one job, one process: samples a second, first batch, memory held, share error. JSON to stdout.

python benchmarks/speech_measure.py threads wav 2 bench-data/speech --seconds 5
"""

import argparse
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

from held import held_megabytes
from speech_data import HOURS


def share_error(languages: list[str]) -> float:
    """The largest distance of any language from its quota, at any batch's end."""
    counts, worst, hours = Counter[str](), 0.0, sum(HOURS.values())
    for number, language in enumerate(languages, start=1):
        counts[language] += 1
        if number % 16 == 0:
            worst = max(worst, *(abs(counts[name] - number * HOURS[name] / hours) for name in HOURS))
    return worst


def _languages(batch: dict[str, Any]) -> list[str]:
    return list(batch.get("language", batch.get("sources", ())))


def measure(loader: str, job: str, workers: int, folder: Path, seconds: float, samples: int) -> dict[str, float]:
    import numpy as np
    import speech_ours
    import speech_peers
    import torch

    torch.set_num_threads(1)
    np.random.seed(0)
    make = {**speech_peers.LOADERS, **speech_ours.LOADERS}[loader]
    began = time.perf_counter()
    batches = make(folder, job, workers)
    languages = _languages(next(batches))
    ready = time.perf_counter()
    for _ in range(3 if job == "feats" else 30):
        languages += _languages(next(batches))
    made, start, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        batch = next(batches)
        languages += _languages(batch)
        made += len(batch["wav"])
    spent, cpu = time.perf_counter() - start, time.process_time() - cpu
    held = held_megabytes()
    while languages and len(languages) < samples:
        languages += _languages(next(batches))
    return {
        "samples_a_second": made / spent,
        "cpu_us_a_sample": 1e6 * cpu / made,
        "first_batch_seconds": ready - began,
        "held_megabytes": held,
        "share_error": share_error(languages[:samples]) if samples else -1.0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loader")
    parser.add_argument("job", choices=["wav", "flac", "feats"])
    parser.add_argument("workers", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--samples", type=int, default=0, help="look at the shares of the first so many samples")
    options = parser.parse_args()
    found = measure(options.loader, options.job, options.workers, options.folder, options.seconds, options.samples)
    print(json.dumps(found), flush=True)
    os._exit(0)  # some loaders' threads and workers are slow to end


if __name__ == "__main__":
    main()
