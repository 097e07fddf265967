"""Two versions of Penstock on the speech job, in one run: interleaved rounds, medians, ratios.

python benchmarks/compare.py OLD/src NEW/src [--jobs wav flac feats] [--rounds 5]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CASES = [("threads", 0), ("threads", 2), ("threads", 4), ("processes", 2)]
SECONDS = {"wav": 3.0, "flac": 3.0, "feats": 4.0}


def measure(source: Path, loader: str, workers: int, job: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, str(HERE / "speech_measure.py"), loader, job, str(workers), str(folder)]
    command += ["--seconds", str(SECONDS[job]), "--samples", "0"]
    environment = {**os.environ, "PYTHONPATH": str(source.absolute())}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    if done.returncode:
        raise RuntimeError(f"{source} {loader} {job} with {workers} workers failed:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--folder", type=Path, default=Path("bench-data/speech"))
    parser.add_argument("--old-folder", type=Path, help="the same data, indexed by the old version")
    parser.add_argument("--jobs", nargs="+", default=["wav", "flac", "feats"], choices=SECONDS)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for job in arguments.jobs:
        for loader, workers in CASES:
            rates: dict[Path, list[float]] = {arguments.old: [], arguments.new: []}
            folders = {arguments.old: arguments.old_folder or arguments.folder, arguments.new: arguments.folder}
            for _ in range(arguments.rounds):
                for source, found in rates.items():
                    figures = measure(source, loader, workers, job, folders[source])
                    found.append(figures["samples_a_second"])
            old = statistics.median(rates[arguments.old])
            new = statistics.median(rates[arguments.new])
            spread = ", ".join(f"{b / a:.2f}" for a, b in zip(*rates.values(), strict=True))
            rates_of_both = f"{old:8,.0f}/s -> {new:8,.0f}/s"
            print(f"{job:5} {loader:9} {workers}: {rates_of_both}  {new / old:.3f}  ({spread})", flush=True)


if __name__ == "__main__":
    main()
