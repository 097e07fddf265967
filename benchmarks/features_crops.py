"""Six-second crops from members of one file in the page cache, against what the libraries alone can do. JSON to stdout.

WAV: the bare limit is a memory map and one multiplication into the row. FLAC at 24 kHz: libsndfile's seek and soxr.
Rounds are interleaved; a figure is the median round, in clips a second, with the CPU time of a clip beside it.
"""

import io
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from penstock.media.audio.clip import read_crop
from penstock.media.span import Slice
from penstock.store.local import LocalStore

CROP, CLIPS, SECONDS, ROUNDS = 96_000, 60, 10, 7
Job = Callable[[int, NDArray[np.float32], int], None]  # clip, row, draw


@dataclass(frozen=True)
class Shard:
    path: Path
    offsets: list[int]
    sizes: list[int]


def speech(rate: int, seed: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    t = np.arange(rate * SECONDS) / rate
    tones = sum(np.sin(2 * np.pi * (110 + seed) * k * t) / k for k in range(1, 8))
    return (0.1 * tones * (1 + np.sin(5 * t)) + 0.01 * rng.standard_normal(len(t))).astype(np.float32)


def write_shard(folder: Path, form: str, rate: int) -> Shard:
    offsets, sizes, path = [], [], folder / f"{form}-{rate}"
    with path.open("wb") as shard:
        for clip in range(CLIPS):
            file = io.BytesIO()
            soundfile.write(file, speech(rate, clip), rate, format=form, subtype="PCM_16")
            shard.write(bytes(512))
            offsets.append(shard.tell())
            sizes.append(shard.write(file.getvalue()))
            shard.write(bytes(-sizes[-1] % 512))
    return Shard(path, offsets, sizes)


@contextmanager
def ours(shard: Shard) -> Iterator[Job]:
    blob = LocalStore(shard.path.parent).open(shard.path.name)
    spans = [Slice(blob, *place) for place in zip(shard.offsets, shard.sizes, strict=True)]

    def job(clip: int, row: NDArray[np.float32], draw: int) -> None:
        read_crop(spans[clip], draw, row)

    yield job
    blob.close()


def mapped_wav(shard: Shard) -> Job:
    mapped = np.memmap(shard.path, np.uint8, "r")
    scale = np.float32(1 / 32_768)

    def job(clip: int, row: NDArray[np.float32], draw: int) -> None:
        start = shard.offsets[clip] + 44 + 2 * (draw % (SECONDS * 16_000 - CROP))
        np.multiply(mapped[start : start + 2 * CROP].view(np.int16), scale, out=row)

    return job


def sought_flac(shard: Shard) -> Job:
    data = shard.path.read_bytes()
    files = [data[at : at + size] for at, size in zip(shard.offsets, shard.sizes, strict=True)]

    def job(clip: int, row: NDArray[np.float32], draw: int) -> None:
        with soundfile.SoundFile(io.BytesIO(files[clip])) as file:
            file.seek(draw % (24_000 * SECONDS - 144_000))
            row[:] = soxr.resample(file.read(144_000, dtype="float32"), 24_000, 16_000)

    return job


def run(job: Job, threads: int, clips: int) -> tuple[float, float]:
    """Clips a second over all threads, and CPU milliseconds a clip."""

    def work(worker: int) -> None:
        rows = np.empty((16, CROP), np.float32)
        draws = np.random.default_rng(worker).integers(0, 2**64 - 1, clips, dtype=np.uint64).tolist()
        for turn, draw in enumerate(draws):
            job((turn * 7 + worker) % CLIPS, rows[turn % 16], draw)

    with ThreadPoolExecutor(threads) as pool:
        wall, cpu = time.perf_counter(), time.process_time()
        list(pool.map(work, range(threads)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return threads * clips / wall, cpu / (threads * clips) * 1e3


def compare(limit: Job, job: Job, clips: int) -> dict[str, object]:
    cases = {"limit, 1 thread": (limit, 1), "penstock, 1 thread": (job, 1), "penstock, 2 threads": (job, 2)}
    runs = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, (case, threads) in cases.items():
            runs[name].append(run(case, threads, clips))
    rate = {name: statistics.median(r for r, _ in rounds) for name, rounds in runs.items()}
    return {
        "clips_a_second": rate,
        "best_clips_a_second": {name: max(r for r, _ in rounds) for name, rounds in runs.items()},
        "cpu_ms_a_clip": {name: statistics.median(c for _, c in rounds) for name, rounds in runs.items()},
        "of_the_limit": {name: value / rate["limit, 1 thread"] for name, value in rate.items()},
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        wav, flac = (write_shard(Path(folder), *kind) for kind in (("WAV", 16_000), ("FLAC", 24_000)))
        with ours(wav) as wav_job, ours(flac) as flac_job:
            report = {
                "wav 16 kHz": compare(mapped_wav(wav), wav_job, 1_500),
                "flac 24 kHz": compare(sought_flac(flac), flac_job, 60),
            }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
