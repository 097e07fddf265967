"""Batches of whole clips with decoding: by length, random, and from Lhotse's sampler. For benchmarks/lengths.py.

All read the same generated WAV files of 16 kHz in one thread, and make padded float32 batches. Figures are per second
of CPU, with data in the page cache, and the median of three rounds.
"""

import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import penstock
from penstock.media.audio.wav import wav_bytes
from penstock.readers.tar.archive import add_file

RATE = 16_000
LANGUAGES = 12
CLIPS = 60  # per language
SAMPLES = 700  # per round


def write_clips(folder: Path) -> dict[str, float]:
    """Write one shard per language, the same clips as files, and a filelist. Returns the seconds of each clip."""
    rng = np.random.default_rng(0)
    known: dict[str, float] = {}
    (folder / "wav").mkdir(parents=True)
    with open(folder / "train.tsv", "w") as out:
        for number in range(LANGUAGES):
            mean = 3 + 6 * number / (LANGUAGES - 1)
            seconds = np.round(np.clip(rng.lognormal(np.log(mean) - 0.18, 0.6, CLIPS), 0.5, 30), 2)
            with tarfile.open(folder / f"{number}.tar", "w", format=tarfile.GNU_FORMAT) as tar:
                for at, length in enumerate(seconds.tolist()):
                    name = f"{number}-{at}"
                    sound = wav_bytes((0.1 * rng.standard_normal(round(length * RATE))).astype(np.float32), RATE)
                    add_file(tar, f"{name}.wav", sound)
                    (folder / "wav" / f"{name}.wav").write_bytes(sound)
                    out.write(f"{number}.tar\t{name}\tlanguage{number}\t{length}\n")
                    known[name] = length
    return known


def rate(batches: Callable[[], Iterator[tuple[int, float]]]) -> tuple[float, float]:
    """Return samples and useful seconds per second of CPU.

    Args:
        batches: Function that yields the samples and the useful seconds of each batch.
    """
    rounds = []
    for _ in range(3):
        samples = 0
        useful = 0.0
        began = time.process_time()
        for count, seconds in batches():
            samples += count
            useful += seconds
            if samples >= SAMPLES:
                break
        spent = time.process_time() - began
        rounds.append((samples / spent, useful / spent))
    return median(each[0] for each in rounds), median(each[1] for each in rounds)


def of_feed(options: dict[str, Any]) -> tuple[float, float]:
    feed = penstock.open(options, rank=0, world=1)
    feed.batch(0)

    def batches() -> Iterator[tuple[int, float]]:
        with feed.loader(threads=0) as loader:
            for batch in loader:
                yield len(batch["ids"]), float(batch["length"].sum()) / RATE

    return rate(batches)


def of_lhotse(folder: Path, known: dict[str, float], budget: float) -> tuple[float, float]:
    from lhotse import CutSet, MonoCut, Recording
    from lhotse.dataset import DynamicBucketingSampler
    from lhotse.dataset.collation import collate_audio

    recordings = [Recording.from_file(folder / "wav" / f"{name}.wav") for name in known]
    cuts = CutSet.from_cuts([MonoCut(each.id, 0, each.duration, 0, recording=each) for each in recordings])

    def batches() -> Iterator[tuple[int, float]]:
        for batch in DynamicBucketingSampler(cuts, max_duration=budget, num_buckets=30, shuffle=True, seed=7):
            sound, lengths = collate_audio(batch)
            yield len(sound), float(lengths.sum()) / RATE

    return rate(batches)


def measure_speeds(folder: Path, budget: float, has_lhotse: bool) -> dict[str, tuple[float, float]]:
    """Return samples and useful seconds per second of CPU, by loader."""
    torch.set_num_threads(1)
    own = folder / "decoding"
    known = write_clips(own)
    options = {"recipe": "speech", "filelist": str(own / "train.tsv"), "store": str(own), "seed": 7}
    options |= {"speech": {"crop": "full", "features": False}}
    size = max(1, round(budget / (sum(known.values()) / len(known))))
    found = {"random batches, Penstock": of_feed({**options, "batch_size": size})}
    if has_lhotse:
        found["Lhotse 1.33, 30 buckets, WAV files"] = of_lhotse(own, known, budget)
    found["by length, Penstock"] = of_feed({**options, "batch": {"seconds": budget, "units": 1}})
    return found
