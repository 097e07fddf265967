"""How fast does a streamed LeRobotDataset come, with a consumer that does nothing with it?

    python benchmarks/streaming/benchmark_streaming.py --root /data/pusht --source local --mode single --output results
    python benchmarks/streaming/benchmark_streaming.py --repo-id lerobot/pusht --source hub --mode sarm --output results

One process per rank; ``slurm/benchmark_streaming.sh`` starts many. README.md beside this file explains the figures.
"""

import argparse
import csv
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from penstock.compat.lerobot import StreamingLeRobotDataset

MODES = {"single": None, "sarm": [float(second) for second in range(-8, 1)]}
PERCENTILES = (50, 95, 99)


class Place(NamedTuple):
    """Where this process is among all, as its launcher says."""

    rank: int
    world: int
    per_node: int

    @property
    def nodes(self) -> int:
        return max(1, self.world // self.per_node)


def this_place() -> Place:
    world = int(os.environ.get("WORLD_SIZE", 1))
    return Place(int(os.environ.get("RANK", 0)), world, int(os.environ.get("LOCAL_WORLD_SIZE", world)))


def positive(text: str) -> int:
    """Return a whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"it takes at least 1, not {number}")
    return number


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure how fast a streamed LeRobotDataset comes.")
    parser.add_argument("--repo-id", default="penstock/benchmark", help="the dataset on the hub")
    parser.add_argument("--root", help="its folder or URL; the hub is not asked then")
    parser.add_argument("--repo-type", choices=["dataset", "bucket"], default="dataset")
    parser.add_argument("--source", default="local", help="name of the source in the results: local, hub, bucket, s3 …")
    parser.add_argument("--mode", choices=list(MODES), default="single", help="one frame, or 9 frames 1 s apart")
    parser.add_argument("--batch-size", type=positive, default=32, help="per process")
    parser.add_argument("--num-workers", type=int, default=4, help="per process")
    parser.add_argument("--batches", type=positive, default=200, help="that are measured, after the first one")
    parser.add_argument("--episode-pool-size", type=positive, default=256)
    parser.add_argument("--cache-dir", help="folder of the node cache")
    parser.add_argument("--cache-size", default="50GB")
    parser.add_argument("--output", type=Path, default=Path("benchmark-streaming"), help="folder of the results")
    parser.add_argument("--merge", action="store_true", help="only put the results of all ranks together")
    return parser.parse_args()


def make_dataset(args: argparse.Namespace) -> "StreamingLeRobotDataset":
    from penstock.compat.lerobot import StreamingLeRobotDataset

    options: dict[str, Any] = {
        "root": args.root,
        "repo_type": args.repo_type,
        "episode_pool_size": args.episode_pool_size,
        "return_uint8": True,
        "batch_size": args.batch_size,
    }
    if args.cache_dir:
        options["cache"] = {"dir": args.cache_dir, "size": args.cache_size}
    dataset = StreamingLeRobotDataset(args.repo_id, **options)
    seconds = MODES[args.mode]
    if seconds is None:
        return dataset
    windows = dict.fromkeys(dataset.meta.camera_keys, seconds)
    return StreamingLeRobotDataset(args.repo_id, delta_timestamps=windows, **options)


def waits_for_batches(loader: Iterable[Any], batches: int) -> tuple[list[float], int]:
    """Return how long the consumer waited for each batch, the first one included, and samples without those of it."""
    waits: list[float] = []
    samples = 0
    while True:
        before = time.perf_counter()
        for batch in loader:  # each is an epoch
            waits.append(time.perf_counter() - before)
            samples += len(batch["index"]) if len(waits) > 1 else 0
            if len(waits) > batches:
                return waits, samples
            before = time.perf_counter()


def measure(args: argparse.Namespace, place: Place) -> dict[str, Any]:
    """Measure one rank."""
    from torch.utils.data import DataLoader  # not needed to merge

    dataset = make_dataset(args)
    loader = DataLoader(dataset, batch_size=args.batch_size, num_workers=args.num_workers)
    waits, samples = waits_for_batches(loader, args.batches)
    window = MODES[args.mode]
    per_sample = len(dataset.meta.camera_keys) * (1 if window is None else len(window))
    return {
        "source": args.source,
        "mode": args.mode,
        "nodes": place.nodes,
        "ranks": place.world,
        "rank": place.rank,
        "workers": args.num_workers,
        "batch_size": args.batch_size,
        "samples": samples,
        "frames": samples * per_sample,
        "seconds": sum(waits[1:]),
        "first_batch_seconds": waits[0],
        "sample_milliseconds": [1000 * wait / args.batch_size for wait in waits[1:]],
        "decoders": dataset.video_decoder_cache.stats(),
    }


def merged(ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """Put the results of all ranks together."""
    same = {name: ranks[0][name] for name in ("source", "mode", "nodes", "ranks", "workers", "batch_size")}
    waits = np.concatenate([rank["sample_milliseconds"] for rank in ranks])
    decoders = {name: sum(rank["decoders"][name] for rank in ranks) for name in ranks[0]["decoders"]}
    return {
        **same,
        "frames_per_second_per_node": sum(rank["frames"] / rank["seconds"] for rank in ranks) / same["nodes"],
        "samples_per_second_per_node": sum(rank["samples"] / rank["seconds"] for rank in ranks) / same["nodes"],
        **{f"sample_p{at}_ms": float(np.percentile(waits, at)) for at in PERCENTILES},
        "first_batch_seconds": max(rank["first_batch_seconds"] for rank in ranks),
        **{f"decoder_{name}": count for name, count in decoders.items()},
        "decoder_hit_rate": decoders["hits"] / max(1, decoders["hits"] + decoders["misses"]),
    }


def merge(folder: Path) -> dict[str, Any]:
    """Write ``results.json`` and ``results.csv`` of the ranks that wrote theirs into a folder, and return the row."""
    ranks = [json.loads(path.read_text()) for path in sorted(folder.glob("rank-*.json"))]
    if {rank["ranks"] for rank in ranks} != {len(ranks)}:
        of = max((rank["ranks"] for rank in ranks), default=0)
        raise SystemExit(f"{folder} has results of {len(ranks)} ranks, of a run with {of}; it takes one whole run")
    row = merged(ranks)
    (folder / "results.json").write_text(json.dumps(row, indent=1) + "\n")
    with (folder / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerow(row)
    return row


def main() -> None:
    args = arguments()
    place = this_place()
    if not args.merge:
        args.output.mkdir(parents=True, exist_ok=True)
        found = measure(args, place)
        (args.output / f"rank-{place.rank}.json").write_text(json.dumps(found))
    if args.merge or place.world == 1:
        print(json.dumps(merge(args.output), indent=1))


if __name__ == "__main__":
    main()
