"""Batches by length against Lhotse's dynamic buckets and random batches, on one job: 12 languages, 0.5 to 30 s.

Measures the useful share of padded seconds, the largest batch against the budget, the time to plan, and whether a run
that was stopped continues exactly, on the same and on another number of ranks; and samples per second of CPU with
decoding, on generated clips. With --lhotse, the folder of Lhotse
(pip install --no-deps --target FOLDER lhotse==1.33.0 intervaltree lilcom cytoolz toolz sortedcontainers tabulate).

python benchmarks/lengths.py [--clips 200000] [--lhotse FOLDER] [--out benchmarks/results/lengths]
"""

import argparse
import copy
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lengths_speed import measure_speeds

import penstock

HOURS = {
    "english": 10002,
    "telugu": 9123,
    "hindi": 9054,
    "punjabi": 8917,
    "malayalam": 7842,
    "gujarati": 6875,
    "kannada": 6263,
    "tamil": 5195,
    "bengali": 2981,
    "marathi": 2579,
    "odia": 2199,
    "assamese": 617,
}
PER_SHARD = 500
STEPS_AT_ONCE = 8
CUTS = {120: [(1, 1), (8, 1), (8, 8)], 600: [(1, 1), (64, 1), (64, 8)]}  # units and lanes, by budget in seconds


class Measured(NamedTuple):
    """What one loader did.

    Attributes:
        loader: Name of the loader.
        batches: Number of batches.
        useful: Share of the padded seconds that is sound.
        largest: Seconds of the largest batch, with padding.
        plan_us: Microseconds of CPU per sample to plan.
        cold_ms: Milliseconds of CPU to resume a run and plan its next step; 0 if not measured.
        resume: What a resume gives.
        budget: Seconds of the budget.
    """

    loader: str
    batches: int
    useful: float
    largest: float
    plan_us: float
    cold_ms: float
    resume: str
    budget: float


def durations(language: int, clips: int) -> Any:
    """Seconds of the clips of a language: lognormal, 3 to 9 s on average by language."""
    mean = 3 + 6 * language / (len(HOURS) - 1)
    drawn = np.random.default_rng(language).lognormal(np.log(mean) - 0.18, 0.6, clips)
    return np.round(np.clip(drawn, 0.5, 30), 2)


def write_job(folder: Path, clips: int) -> dict[str, float]:
    """Write the filelist of the job, and return the seconds of each clip."""
    total = sum(HOURS.values())
    known: dict[str, float] = {}
    with open(folder / "train.tsv", "w") as out:
        for number, (language, hours) in enumerate(HOURS.items()):
            for at, seconds in enumerate(durations(number, max(1000, clips * hours // total)).tolist()):
                name = f"{language}-{at}"
                known[name] = seconds
                out.write(f"{language}/{at // PER_SHARD}.tar\t{name}\t{language}\t{seconds}\n")
    return known


def useful(batches: list[list[float]]) -> tuple[float, float]:
    """Return the useful share, and the largest batch with padding."""
    padded = [len(batch) * max(batch) for batch in batches if batch]
    return sum(map(sum, batches)) / sum(padded), max(padded)


def random_batches(known: dict[str, float], budget: float, count: int) -> list[list[float]]:
    """Batches of as many random clips as fill the budget on average."""
    seconds = np.array(list(known.values()))
    size = max(1, round(budget / seconds.mean()))
    drawn = np.random.default_rng(0).permutation(len(seconds))
    batches = [seconds[drawn[at : at + size]].tolist() for at in range(0, len(drawn) - size, size)]
    return batches[:count]


def unit_ids(feed: penstock.Feed, step: int) -> list[list[str]]:
    """Return the ids of each unit of a rank's step."""
    ids = feed.catalog.ids(feed.planned(step))
    rows = feed.plan.cut(feed.timeline(feed.world)).unit_rows(step, feed.rank, feed.world)
    ends = np.cumsum(rows).tolist()
    return [ids[end - count : end] for end, count in zip(ends, rows, strict=True)]


def cold_ms(options: dict[str, Any], step: int) -> float:
    """Return the CPU time to resume a run at a step and plan it, as the median of three."""
    state = penstock.open(options, rank=0, world=1).state(step)
    spent = []
    for _ in range(3):
        feed = penstock.open(options, rank=0, world=1)
        began = time.process_time()
        feed.resume(state)
        feed.planned(step)
        spent.append(time.process_time() - began)
    return sorted(spent)[1] * 1e3


def microseconds_per_sample(feed: penstock.Feed) -> float:
    """Return the CPU time to plan three windows, step by step, per sample."""
    feed.planned(0)  # finds the number of steps per window
    timeline = feed.timeline(1)
    per_window = timeline.window(0).steps
    samples = 0
    began = time.process_time()
    for step in range(per_window, 4 * per_window, STEPS_AT_ONCE):  # several at once, as a loader plans them
        samples += len(feed.plan.batches(range(step, step + STEPS_AT_ONCE), 0, 1, timeline).item)
    return (time.process_time() - began) / samples * 1e6


def ours(folder: Path, known: dict[str, float], budget: float, units: int, lanes: int, count: int) -> Measured:
    options = {**keys(folder), "batch": {"seconds": budget, "units": units}, "lanes": lanes}
    feed = penstock.open(options, rank=0, world=1)
    steps = max(4, count // units)
    plan_us = microseconds_per_sample(feed)
    planned = [unit_ids(feed, step) for step in range(steps)]
    batches = [[known[name] for name in ids] for step in planned for ids in step]
    share, largest = useful(batches)
    half = steps // 2
    again = penstock.open(options, rank=0, world=1)
    same = again.resume(feed.state(half)) == half
    same = same and all(unit_ids(again, step) == planned[step] for step in range(half, steps))
    ranks = [penstock.open(options, rank=rank, world=min(units, 8)) for rank in range(min(units, 8))]
    for feed_of_rank in ranks:
        feed_of_rank.resume(feed.state(half))
    divided = [[ids for each in ranks for ids in unit_ids(each, step)] for step in range(half, steps)]
    exact = same and divided == planned[half:]
    name = f"Penstock, {units} unit{'s' if units > 1 else ''}{f', {lanes} lanes' if lanes > 1 else ''}"
    told = "exact, on any ranks" if exact else "OTHER"
    return Measured(name, len(batches), share, largest, plan_us, cold_ms(options, 100_003), told, budget)


def constant(folder: Path) -> float:
    """Return the CPU time of a cold step of 16 clips each."""
    return cold_ms({**keys(folder), "batch_size": 16}, 100_003)


def keys(folder: Path) -> dict[str, Any]:
    own = {"recipe": "speech", "filelist": str(folder / "train.tsv"), "store": str(folder), "seed": 7}
    return {**own, "speech": {"crop": "full", "features": False}}


def lhotse(known: dict[str, float], budget: float, count: int) -> Measured:
    from lhotse import CutSet, MonoCut
    from lhotse.dataset import DynamicBucketingSampler

    def cuts() -> Iterator[MonoCut]:
        names = list(known)
        for at in np.random.default_rng(1).permutation(len(names)).tolist():  # shards are shuffled, too
            yield MonoCut(names[at], 0, known[names[at]], 0)

    all_cuts = CutSet.from_cuts(cuts())

    def sampler(**options: Any) -> Any:
        return DynamicBucketingSampler(
            all_cuts, max_duration=budget, num_buckets=30, shuffle=True, seed=7, buffer_size=20_000, **options
        )

    one = sampler()
    began = time.process_time()
    batches, states = [], {}
    for batch in one:
        batches.append([cut.id for cut in batch])
        if len(batches) == count // 2:
            states = copy.deepcopy(one.state_dict())
        if len(batches) == count:
            break
    spent = time.process_time() - began
    share, largest = useful([[known[name] for name in batch] for batch in batches])
    again = sampler()
    again.load_state_dict(copy.deepcopy(states))
    rest = [[cut.id for cut in batch] for batch, _ in zip(again, range(count - count // 2), strict=False)]
    same = rest == batches[count // 2 :]
    two = [sampler(world_size=2, rank=rank) for rank in range(2)]
    split = [[cut.id for cut in batch] for pair in zip(*two, strict=False) for batch in pair][:100]
    told = f"{'exact' if same else 'other batches'} on one rank"
    told += "; the same batches on two ranks" if split == batches[:100] else "; other batches on two ranks"
    try:
        moved = sampler(world_size=2, rank=0)
        moved.load_state_dict(copy.deepcopy(states))
        told += ", which take the state"
    except (AssertionError, ValueError):
        told += ", which refuse the state"
    samples = sum(map(len, batches))
    return Measured("Lhotse 1.33, 30 buckets", len(batches), share, largest, spent / samples * 1e6, 0.0, told, budget)


def table(found: list[Measured], constant_ms: float, speeds: dict[str, tuple[float, float]]) -> str:
    lines = [
        "| loader | budget | batches | useful share | largest batch | plan, µs per sample | cold step, ms | resume |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in found:
        share = f"{100 * each.useful:.1f}%"
        plan = f"{each.plan_us:.2f}" if each.plan_us else "–"
        cold = f"{each.cold_ms:.0f}" if each.cold_ms else "–"
        lines.append(
            f"| {each.loader} | {each.budget:g} s | {each.batches:,} | {share} | {each.largest:.1f} s | "
            f"{plan} | {cold} | {each.resume} |"
        )
    lines += ["", f"A cold step of 16 clips, not by length: {constant_ms:.0f} ms.", ""]
    lines += [
        "| with decoding, 120 s | samples per second of CPU | useful seconds per second of CPU |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {rate:,.0f} | {seconds:,.0f} |" for name, (rate, seconds) in speeds.items()]
    return "\n".join(lines)


def plot(found: list[Measured], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 0.42 * len(found) + 1.2))
    places = range(len(found))
    axes.barh(places, [100 * each.useful for each in found], color="#3b6ea5")
    axes.set_yticks(places, [f"{each.loader}, {each.budget:g} s" for each in found])
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("useful share of padded seconds (%)")
    for at, each in enumerate(found):
        axes.text(100 * each.useful - 1, at, f"{100 * each.useful:.1f}", va="center", ha="right", color="white")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=200_000)
    parser.add_argument("--batches", type=int, default=4_000)
    parser.add_argument("--lhotse", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.lhotse is not None:
        sys.path.append(str(args.lhotse))
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        known = write_job(folder, args.clips)
        for budget, cuts in CUTS.items():
            drawn = random_batches(known, budget, args.batches)
            found.append(Measured("random batches", len(drawn), *useful(drawn), 0.0, 0.0, "–", budget))
            if args.lhotse is not None:
                found.append(lhotse(known, budget, args.batches))
            found += [ours(folder, known, budget, units, lanes, args.batches) for units, lanes in cuts]
        constant_ms = constant(folder)
        speeds = measure_speeds(folder, 120, args.lhotse is not None)
    shown = table(found, constant_ms, speeds)
    print(shown)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        rows = {"clips": len(known), "constant_cold_ms": constant_ms, "decoding": speeds}
        rows["loaders"] = [each._asdict() for each in found]
        args.out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")
        args.out.with_suffix(".md").write_text(shown + "\n")
        plot(found, args.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
