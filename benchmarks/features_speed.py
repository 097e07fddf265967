"""W2V-BERT features: ours against transformers' extractor, in one run, on one thread. JSON to stdout.

    OPENBLAS_NUM_THREADS=1 python benchmarks/features_speed.py

Without that setting the extractor's numpy multiplies matrices on every core.
"""

import json
import os
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from transformers import SeamlessM4TFeatureExtractor

from penstock.media.audio.features import w2v_bert_features

BATCH, SAMPLES, ROUNDS = 16, 96_000, 12


def seconds(job: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU time; the CPU's own is what holds on a machine that is shared."""
    wall, cpu = time.perf_counter(), time.thread_time()
    job()
    return time.perf_counter() - wall, time.thread_time() - cpu


def main() -> None:
    torch.set_num_threads(1)
    extractor = SeamlessM4TFeatureExtractor()
    wav = torch.from_numpy(np.random.default_rng(0).normal(0, 0.1, (BATCH, SAMPLES)).astype(np.float32))

    def extract() -> torch.Tensor:
        padded = torch.nn.functional.pad(wav, (160, 160)).numpy()
        rows = [extractor(clip, sampling_rate=16_000, return_tensors="pt")["input_features"] for clip in padded]
        return torch.stack(rows)

    jobs: dict[str, Callable[[], torch.Tensor]] = {
        "extractor": extract,
        "float32": lambda: w2v_bert_features(wav),
        "float64": lambda: w2v_bert_features(wav, torch.float64),
    }
    difference = {name: (job() - extract()).abs().max().item() for name, job in jobs.items()}
    times = {name: [] for name in jobs}
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            times[name].append(seconds(job))
    wall = {name: statistics.median(w for w, _ in runs) / BATCH * 1e3 for name, runs in times.items()}
    cpu = {name: statistics.median(c for _, c in runs) / BATCH * 1e3 for name, runs in times.items()}
    report = {
        "clip_seconds": SAMPLES / 16_000,
        "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", "all"),
        "wall_ms_a_clip": wall,
        "cpu_ms_a_clip": cpu,
        "times_faster_wall": {name: wall["extractor"] / wall[name] for name in jobs},
        "times_faster_cpu": {name: cpu["extractor"] / cpu[name] for name in jobs},
        "max_difference": difference,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
