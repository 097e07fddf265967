"""The chat job, every loader in one run: interleaved rounds, medians, ratios. Writes JSON and Markdown.

    python benchmarks/chat_data.py          # once: conversations, images, a tokenizer
    python benchmarks/chat.py

``datasets`` is the peer; it is in the same environment. Two further tables are Penstock's alone: a step from cold, and
memory over many batches.
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
CASES = {
    "text": [
        ("tokenizer alone", 0),
        ("tokenizer alone", 2),
        ("threads", 0),
        ("threads", 2),
        ("processes", 2),
        ("kept tokens", 0),
        ("kept tokens", 2),
        ("datasets", 0),
        ("datasets", 2),
    ],
    "image": [
        ("decoder alone", 0),
        ("decoder alone", 2),
        ("threads", 0),
        ("threads", 2),
        ("processes", 2),
        ("datasets", 0),
        ("datasets", 2),
        ("datasets, our processor", 0),
        ("datasets, our processor", 2),
    ],
}
OURS = ("threads", "processes")
PEERS = {"text": ("datasets",), "image": ("datasets", "datasets, our processor")}
LIMITS = {"text": "tokenizer alone", "image": "decoder alone"}


def last_line(command: list[Any]) -> dict[str, float]:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=1_200)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(job: str, folder: Path, rounds: int, seconds: float) -> dict[str, Any]:
    """All loaders, round by round; a loader's figure is the median of its rounds."""
    found: dict[str, list[dict[str, float]]] = {}
    for turn in range(rounds):
        for loader, workers in CASES[job]:
            command = [sys.executable, HERE / "chat_measure.py", loader, job, workers, folder, "--seconds", seconds]
            figures = {**last_line(command), "load": os.getloadavg()[0]}
            found.setdefault(f"{loader}, {workers}", []).append(figures)
            print(job, turn, loader, workers, f"{figures['samples_per_second']:,.0f}/s", file=sys.stderr, flush=True)
    medians = {
        case: {key: statistics.median(each[key] for each in figures) for key in figures[0]}
        for case, figures in found.items()
    }
    return {"rounds": found, "medians": medians, "ratios": ratios(job, medians)}


def ratios(job: str, medians: dict[str, dict[str, float]]) -> dict[str, list[float]]:
    """The best of ours against the best of each kind: by samples per second, and by samples per second of CPU time."""

    def best(*kinds: str) -> list[float]:
        own = [figures for case, figures in medians.items() if case.rpartition(",")[0] in kinds]
        rate = max(figures["samples_per_second"] for figures in own)
        return [rate, 1 / min(figures["cpu_us_per_sample"] for figures in own)]

    def against(first: list[float], second: list[float]) -> list[float]:
        return [round(a / b, 3) for a, b in zip(first, second, strict=True)]

    ours = best(*OURS)
    found = {f"ours / {LIMITS[job]}": against(ours, best(LIMITS[job]))}
    for peer in PEERS[job]:
        found[f"ours / {peer}"] = against(ours, best(peer))
        if job == "text":
            found[f"kept tokens / {peer}"] = against(best("kept tokens"), best(peer))
    return found


def markdown(report: dict[str, Any]) -> str:
    lines = [f"# The chat job, {report['machine']}", ""]
    for job, result in report.get("jobs", {}).items():
        lines += [
            f"## {job}",
            "",
            "| loader, threads/workers | samples/s | CPU, µs per sample | first batch, s | held, MB |",
        ]
        lines += ["|---|---:|---:|---:|---:|"]
        for case, figures in sorted(result["medians"].items(), key=lambda pair: -pair[1]["samples_per_second"]):
            lines.append(
                f"| {case} | {figures['samples_per_second']:,.0f} | {figures['cpu_us_per_sample']:,.0f} "
                f"| {figures['first_batch_seconds']:.2f} | {figures['held_megabytes']:,.0f} |"
            )
        loads = [figures["load"] for rounds in result["rounds"].values() for figures in rounds]
        lines += ["", "| best against best | samples/s | samples per CPU second |", "|---|---:|---:|"]
        lines += [f"| {name} | {rate:.2f} | {cpu:.2f} |" for name, (rate, cpu) in result["ratios"].items()]
        lines += ["", f"Load average while measuring: {min(loads):.1f} to {max(loads):.1f}.", ""]
    for name, figures in report.get("alone", {}).items():
        lines += [f"## {name}", "", "| | |", "|---|---:|"]
        lines += [f"| {key} | {value:,} |" for key, value in figures.items()]
        lines += [""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("bench-data/chat"))
    parser.add_argument("--jobs", nargs="*", default=["text", "image"], choices=CASES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--batches", type=int, default=10_000, help="of the memory run; 0 leaves it out")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "chat")
    options = parser.parse_args()
    folder = options.folder.absolute()
    written = options.out.with_suffix(".json")
    report: dict[str, Any] = json.loads(written.read_text()) if written.exists() else {"jobs": {}, "alone": {}}
    report["machine"] = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    last_line([sys.executable, HERE / "chat_keep.py", folder])  # the index, with and without tokens
    for job in options.jobs:
        report["jobs"][job] = run(job, folder, options.rounds, options.seconds)
        save(report, options.out)
    report["alone"]["a step from cold"] = last_line([sys.executable, HERE / "chat_seek.py", folder])
    if options.batches:
        command = [sys.executable, HERE / "chat_memory.py", folder, options.batches]
        report["alone"]["memory"] = last_line(command)
    save(report, options.out)


def save(report: dict[str, Any], out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    out.with_suffix(".md").write_text(markdown(report))


if __name__ == "__main__":
    main()
