"""Memory of long robot runs, measured in processes of their own: ``python -m tests.long.robot``.

- *sizes*: what is left when batches and decoders are gone is the same for small and for large cameras.
- *flat*: a run over many video files in a bucket, through the node cache, holds no more after its last batch than after
  a quarter of them.
"""

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
CAMERA = "observation.images.top"
SMALL = (96, 96)
LARGE = (480, 640)
SIZES_EPISODES = 24
SIZES_BATCHES = 200
MOST_MORE_MB = 24.0  # than the small cameras' run, or than after a quarter of the batches; heaps are never quite alike
POINTS = (0.25, 0.5, 0.75, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--child", nargs=2, metavar=("KIND", "OPTIONS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        kind, given = options.child
        print(json.dumps({"held": _held, "flat": _flat}[kind](**json.loads(given))))
        return
    with tempfile.TemporaryDirectory() as folder:
        fine = _check_sizes(Path(folder)) & _check_flat(Path(folder), options.files, options.batches)
    sys.exit(0 if fine else 1)


def _check_sizes(folder: Path) -> bool:
    held = {}
    for height, width in (SMALL, LARGE):
        data = folder / f"{width}x{height}"
        _write(data, episodes=SIZES_EPISODES, length=12, shape=(height, width), files=4)
        run = _run(str(data), folder / f"cache-{width}", pool=8)
        told = _child("held", run=run, batches=SIZES_BATCHES)
        held[height, width] = told["held_mb"]
        after = f"after {SIZES_BATCHES} batches of {told['batch_mb']:.1f} MB"
        print(f"{width}×{height}: {told['held_mb']:.1f} MB held {after}")
    return _verdict(held[LARGE] - held[SMALL], "more at 640×480 than at 96²")


def _check_flat(folder: Path, files: int, batches: int) -> bool:
    from tests.servers.weed import running_server

    data = folder / "many"
    began = time.monotonic()
    _write(data, episodes=files, length=8, shape=SMALL, files=files)
    print(f"{files:,} videos written in {time.monotonic() - began:.0f} s")
    with running_server(folder / "s3") as server:
        for path in data.rglob("*"):
            if path.is_file():
                server.put(f"many/{path.relative_to(data).as_posix()}", path.read_bytes())
        remote = {"endpoint": server.url, "region": "us-east-1"}
        run = _run(f"s3://{server.bucket}/many", folder / "cache", pool=256, remote=remote)
        told = _child("flat", environment=server.environment(), run=run, batches=batches)
    for step, megabytes in told["held_mb"].items():
        print(f"{int(step):,} batches: {megabytes:.1f} MB held")
    took = f"{batches:,} batches in {told['seconds']:.0f} s"
    print(f"{took}, {told['descriptors']} open files, {told['threads']} threads")
    held = list(told["held_mb"].values())
    return _verdict(held[-1] - held[0], f"more after {batches:,} batches than after a quarter of them")


def _verdict(more: float, what: str) -> bool:
    fine = more <= MOST_MORE_MB
    print(f"{'ok' if fine else 'NOT OK'}: {more:+.1f} MB {what} (at most {MOST_MORE_MB:g})\n")
    return fine


def _write(folder: Path, *, episodes: int, length: int, shape: tuple[int, int], files: int) -> None:
    from penstock.curate.robot.writer import Episode, Layout, write_dataset

    made = []
    for number in range(episodes):
        random = np.random.default_rng(number)
        coarse = random.integers(0, 256, (length, 6, 8, 3), dtype=np.uint8)
        frames = coarse.repeat(-(-shape[0] // 6), axis=1)[:, : shape[0]].repeat(-(-shape[1] // 8), axis=2)
        values = {"action": random.normal(size=(length, 7)).astype(np.float32), CAMERA: frames[:, :, : shape[1]]}
        made.append(Episode("move", values))
    write_dataset(folder, made, fps=10, layout=Layout(episodes_per_video_file=-(-episodes // files)))


def _run(store: str, cache: Path, *, pool: int, **source: Any) -> dict[str, Any]:
    return {
        "recipe": "robot",
        "batch_size": 8,
        "pool": pool,
        "sources": [{"name": "robot", "store": store, **source}],
        "cache": {"dir": str(cache), "size": "1GB"},
    }


def _child(kind: str, environment: dict[str, str] | None = None, **options: Any) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.long.robot", "--child", kind, json.dumps(options)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def _held(run: dict[str, Any], batches: int) -> dict[str, Any]:
    """What is left of a run when its batches and decoders are gone."""
    import penstock

    feed = penstock.open(run, rank=0, world=1)
    with feed.loader(threads=2) as loader:
        for batch, _ in zip(loader, range(batches), strict=False):
            size = batch[CAMERA].nbytes
    del batch
    recipe: Any = feed.recipes["robot"]
    recipe.decoders.clear()
    for buffers in recipe._buffers.values():  # of batches, kept for the next ones
        buffers._free.clear()
    return {"held_mb": _anonymous_megabytes(), "batch_mb": size / 1e6}


def _flat(run: dict[str, Any], batches: int) -> dict[str, Any]:
    """What a run holds now and then, with all that it keeps."""
    import penstock

    wanted = {round(share * batches) for share in POINTS}
    held = {}
    began = time.monotonic()
    with penstock.open(run, rank=0, world=1).loader(threads=2) as loader:
        for number, _ in enumerate(loader, start=1):
            if number in wanted:
                held[number] = _anonymous_megabytes()
            if number >= batches:
                break
        threads = len(os.listdir("/proc/self/task"))
        descriptors = len(os.listdir("/proc/self/fd"))
    seconds = time.monotonic() - began
    return {"held_mb": held, "seconds": seconds, "threads": threads, "descriptors": descriptors}


def _anonymous_megabytes() -> float:
    """Memory of this process that is no file's, without what the allocator keeps for later."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1e3
    raise OSError("/proc/self/status has no RssAnon")


if __name__ == "__main__":
    main()
