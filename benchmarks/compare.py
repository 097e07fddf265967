"""Two checkouts of Penstock on the speech, robot and chat jobs, in one run: interleaved rounds, medians, ratios.

    python benchmarks/speech_data.py; python benchmarks/robot_data.py; python benchmarks/chat_data.py    # once
    python benchmarks/compare.py OLD NEW [--jobs wav flac feats 96-h264/single text image] [--rounds 3]

Each checkout runs its own measuring scripts. No peers are needed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from robot_jobs import JOBS as ROBOT_JOBS

SPEECH_JOBS = ("wav", "flac", "feats")
CHAT_JOBS = ("text", "image")
QUICK_JOBS = (*SPEECH_JOBS, "96-h264/single", "480-h264/windows", *CHAT_JOBS)
CASES = {
    "speech": [("threads", 0), ("threads", 2), ("processes", 2)],
    "robot": [("threads", 2), ("processes", 2)],
    "chat": [("threads", 0), ("threads", 2), ("processes", 2)],
}


class Checkout(NamedTuple):
    """A version of Penstock, and a folder of data that it may index."""

    folder: Path
    data: Path


class Figures(NamedTuple):
    """The result of one measurement."""

    samples_per_second: float
    cpu_us_per_sample: float


def recipe_of(job: str) -> str:
    if job in SPEECH_JOBS:
        return "speech"
    return "chat" if job in CHAT_JOBS else "robot"


def measure(checkout: Checkout, job: str, loader: str, workers: int, seconds: float) -> Figures:
    recipe = recipe_of(job)
    data = str((checkout.data / recipe).absolute())
    case = [loader, str(workers), data, job] if recipe == "robot" else [loader, job, str(workers), data]
    script = str(checkout.folder / "benchmarks" / f"{recipe}_measure.py")
    environment = {**os.environ, "PYTHONPATH": str((checkout.folder / "src").absolute())}
    command = [sys.executable, script, *case, "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    if done.returncode:
        raise RuntimeError(f"{checkout.folder}: {job} {loader} {workers} failed:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    per = "a" if recipe == "speech" else "per"
    return Figures(found[f"samples_{per}_second"], found[f"cpu_us_{per}_sample"])


def compare(old: Checkout, new: Checkout, job: str, loader: str, workers: int, rounds: int, seconds: float) -> str:
    """Return one line: the medians of both, and the ratios of new to old, also of each round."""
    pairs = [[measure(each, job, loader, workers, seconds) for each in (old, new)] for _ in range(rounds)]
    before, after = (_medians(figures) for figures in zip(*pairs, strict=True))
    rate = f"{before.samples_per_second:8,.0f}/s -> {after.samples_per_second:8,.0f}/s"
    ratio = after.samples_per_second / before.samples_per_second
    cpu = after.cpu_us_per_sample / before.cpu_us_per_sample
    spread = ", ".join(f"{b.samples_per_second / a.samples_per_second:.2f}" for a, b in pairs)
    return f"{job:16} {loader:9} {workers}: {rate}  {ratio:.3f}  ({spread})  CPU per sample {cpu:.3f}"


def _medians(figures: Sequence[Figures]) -> Figures:
    return Figures(*(statistics.median(column) for column in zip(*figures, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="checkout of the version to compare with")
    parser.add_argument("new", type=Path, help="checkout of the new version")
    parser.add_argument("--data", type=Path, default=Path("bench-data"))
    parser.add_argument("--old-data", type=Path, help="a copy of the data for the old version, if indexes differ")
    parser.add_argument("--jobs", nargs="+", default=QUICK_JOBS, choices=[*SPEECH_JOBS, *ROBOT_JOBS, *CHAT_JOBS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="duration of one measurement")
    options = parser.parse_args()
    old = Checkout(options.old, options.old_data or options.data)
    new = Checkout(options.new, options.data)
    for job in options.jobs:
        for loader, workers in CASES[recipe_of(job)]:
            print(compare(old, new, job, loader, workers, options.rounds, options.seconds), flush=True)


if __name__ == "__main__":
    main()
