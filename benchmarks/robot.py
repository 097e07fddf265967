"""The robot job, every loader in one run: interleaved rounds, medians, ratios. Writes JSON and Markdown.

    python benchmarks/robot_data.py                                # once: the datasets
    PEERS/bin/python benchmarks/robot_convert.py                   # once: the same as Lance tables
    python benchmarks/robot.py --peers PEERS/bin/python

Without ``--peers`` only Penstock and bare decoding are measured. With ``--jobs`` the results of other jobs are kept.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from robot_jobs import JOBS, Job

HERE = Path(__file__).parent
OURS = [("limit", 2), ("threads", 2), ("processes", 2), ("dataloader", 2)]
PEERS = [("map", 0), ("map", 2), ("lance", 0), ("lance", 2), ("streaming", 0)]
LEROBOT = ("map", "streaming")

Figures = dict[str, float]


def can_run(loader: str, job: str) -> bool:
    """LeRobot's streaming class holds 1,000 decoded samples: 11 GB of large windows."""
    return loader != "streaming" or not Job.named(job).windows or job.startswith("96")


def measure(python: str, loader: str, workers: int, folder: Path, jobs: list[str], seconds: float) -> list[Figures]:
    command = [python, HERE / "robot_measure.py", loader, str(workers), folder, *jobs, "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    if done.returncode:
        raise RuntimeError(f"{loader} {jobs} with {workers} workers failed:\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def run(
    jobs: list[str], folder: Path, peers: str | None, rounds: int, seconds: float
) -> Iterator[dict[str, dict[str, Any]]]:
    """All loaders, round by round; a loader's figure is the median of its rounds. Yields what is known so far.

    A peer does all its jobs in one process, because it takes long to import; the first batch of the first job alone is
    that of a fresh process.
    """
    cases = [(sys.executable, *case, [job]) for case in OURS for job in jobs]
    if peers:
        cases += [(peers, *case, [job for job in jobs if can_run(case[0], job)]) for case in PEERS]
    found: dict[str, dict[str, list[Figures]]] = {job: {} for job in jobs}
    for turn in range(rounds):
        for python, loader, workers, own in cases:
            measured = measure(python, loader, workers, folder, own, seconds) if own else []
            for job, figures in zip(own, measured, strict=True):
                found[job].setdefault(f"{loader}, {workers}", []).append({**figures, "load": os.getloadavg()[0]})
                rate = f"{figures['samples_per_second']:,.0f}/s"
                print(job, turn, loader, workers, rate, file=sys.stderr, flush=True)
            yield {job: {"rounds": own, "medians": _medians(own)} for job, own in found.items() if own}


def _medians(rounds: dict[str, list[Figures]]) -> dict[str, Figures]:
    return {
        case: {key: statistics.median(each[key] for each in figures) for key in figures[0]}
        for case, figures in rounds.items()
    }


def best(medians: dict[str, Figures], *loaders: str) -> Figures:
    """Return the most samples per second of some loaders, and the least CPU time, with any number of workers."""
    own = [each for case, each in medians.items() if case.split(",")[0] in loaders]
    return {
        "rate": max((each["samples_per_second"] for each in own), default=0.0),
        "cpu": min((each["cpu_us_per_sample"] for each in own), default=0.0),
    }


def ratios(medians: dict[str, Figures]) -> list[str]:
    """Return the figures of a job against its targets: by samples per second, and by CPU time per sample."""
    ours = best(medians, "threads", "processes", "dataloader")
    plain = best(medians, "dataloader")
    against = {
        "against LeRobot's own classes": (ours, best(medians, *LEROBOT)),
        "against Lance": (ours, best(medians, "lance")),
        "in a plain DataLoader, against LeRobot's own classes": (plain, best(medians, *LEROBOT)),
        "of bare decoding": (ours, best(medians, "limit")),
    }
    return [
        f"{name} {mine['rate'] / other['rate']:.2f}× (by CPU time {other['cpu'] / mine['cpu']:.2f}×)"
        for name, (mine, other) in against.items()
        if other["rate"] and mine["rate"]
    ]


def markdown(report: dict[str, Any]) -> str:
    lines = [f"# The robot job, {report['machine']}", ""]
    for job, result in report["jobs"].items():
        fastest = max(figures["samples_per_second"] for figures in result["medians"].values())
        lines += [f"## {job}", "", f"Best against best: {'; '.join(ratios(result['medians']))}.", ""]
        lines += [
            "| loader, threads/workers | samples/s | of the fastest | CPU per sample, µs | first batch, s | held, MB |"
        ]
        lines += ["|---|---:|---:|---:|---:|---:|"]
        for case, figures in sorted(result["medians"].items(), key=lambda pair: -pair[1]["samples_per_second"]):
            rate = figures["samples_per_second"]
            lines.append(
                f"| {case} | {rate:,.0f} | {rate / fastest:.3f} | {figures['cpu_us_per_sample']:,.0f} "
                f"| {figures['first_batch_seconds']:.2f} | {figures['held_megabytes']:,.0f} |"
            )
        loads = [figures["load"] for rounds in result["rounds"].values() for figures in rounds]
        lines += ["", f"Load average while measuring: {min(loads):.1f} to {max(loads):.1f}.", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("bench-data/robot"))
    parser.add_argument("--peers", help="the Python of an environment with the peers in it")
    parser.add_argument("--jobs", nargs="+", default=JOBS, choices=JOBS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="per loader and round")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "robot")
    options = parser.parse_args()
    folder = options.folder.absolute()
    stored = options.out.with_suffix(".json")
    report: dict[str, Any] = json.loads(stored.read_text()) if stored.exists() else {"jobs": {}}
    report["machine"] = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for found in run(list(options.jobs), folder, options.peers, options.rounds, options.seconds):
        found = report["jobs"] | found
        report["jobs"] = {name: found[name] for name in JOBS if name in found}
        stored.write_text(json.dumps(report, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(markdown(report))


if __name__ == "__main__":
    main()
