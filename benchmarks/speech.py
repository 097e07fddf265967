"""The speech job, every loader in one run: interleaved rounds, medians, ratios. Writes JSON and Markdown.

    python benchmarks/speech_data.py                               # once: the clips
    PEERS/bin/python benchmarks/speech_convert.py                  # once: the same clips in the peers' formats
    python benchmarks/speech.py --peers PEERS/bin/python

Without ``--peers`` only Penstock and the limits are measured.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OURS = [("limit", 0), ("threads", 0), ("threads", 2), ("threads", 4), ("processes", 2), ("dataloader", 2)]
PEERS = [(name, workers) for name in ("naive", "litdata", "webdataset", "mosaic") for workers in (0, 2)]
SECONDS = {"wav": 3.0, "flac": 3.0, "feats": 4.0}


def measure(python: str, loader: str, job: str, workers: int, folder: Path, samples: int) -> dict[str, float]:
    command = [python, HERE / "speech_measure.py", loader, job, str(workers), folder]
    command += ["--seconds", str(SECONDS[job]), "--samples", str(samples)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{loader} {job} with {workers} workers failed:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(job: str, folder: Path, peers: str | None, rounds: int, samples: int) -> dict[str, Any]:
    """All loaders, round by round; a loader's figure is the median of its rounds."""
    cases = [(sys.executable, *case) for case in OURS if job != "feats" or case[0] != "limit"]
    cases += [(peers, *case) for case in PEERS] if peers else []
    found: dict[str, list[dict[str, float]]] = {}
    for turn in range(rounds):
        for python, loader, workers in cases:
            figures = measure(python, loader, job, workers, folder, samples if turn == 0 else 0)
            found.setdefault(f"{loader}, {workers}", []).append({**figures, "load": os.getloadavg()[0]})
            print(job, turn, loader, workers, f"{figures['samples_a_second']:,.0f}/s", file=sys.stderr, flush=True)
    medians = {
        case: {key: statistics.median(each[key] for each in figures) for key in figures[0]}
        | {"share_error": figures[0]["share_error"]}
        for case, figures in found.items()
    }
    return {"rounds": found, "medians": medians}


def markdown(report: dict[str, Any]) -> str:
    lines = [f"# The speech job, {report['machine']}", ""]
    for job, result in report["jobs"].items():
        best = max(figures["samples_a_second"] for figures in result["medians"].values())
        lines += [f"## {job}", ""]
        lines += ["| loader, threads/workers | samples/s | of the fastest | first batch, s | held, MB | share error |"]
        lines += ["|---|---:|---:|---:|---:|---:|"]
        for case, figures in sorted(result["medians"].items(), key=lambda pair: -pair[1]["samples_a_second"]):
            error = f"{figures['share_error']:.2f}" if figures["share_error"] > 0 else ""
            rate = figures["samples_a_second"]
            lines.append(
                f"| {case} | {rate:,.0f} | {rate / best:.3f} | {figures['first_batch_seconds']:.2f} "
                f"| {figures['held_megabytes']:,.0f} | {error} |"
            )
        loads = [figures["load"] for rounds in result["rounds"].values() for figures in rounds]
        lines += ["", f"Load average while measuring: {min(loads):.1f} to {max(loads):.1f}.", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("bench-data/speech"))
    parser.add_argument("--peers", help="the Python of an environment with the peers in it")
    parser.add_argument("--jobs", nargs="+", default=["wav", "flac", "feats"], choices=SECONDS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=3_200, help="whose shares are compared with their quotas")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "speech")
    options = parser.parse_args()
    folder = options.folder.absolute()
    report: dict[str, Any] = {"machine": f"{os.cpu_count()} cores, Python {platform.python_version()}", "jobs": {}}
    for job in options.jobs:
        samples = options.samples if job == "wav" else 0
        report["jobs"][job] = run(job, folder, options.peers, options.rounds, samples)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(markdown(report))


if __name__ == "__main__":
    main()
