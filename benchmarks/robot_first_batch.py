"""The first batch of robot data from a cold cache: by the frames' own bytes, and by whole files first.

A real S3 server on loopback, every request held up by 20 ms on its way; two cameras, twelve videos each. ``whole``
copies all files, eight requests at once, and reads the same batch from them, as LeRobot does with a dataset of the hub.
Both run by turns, each round with empty folders. Imports are not counted; opening the run is. JSON and Markdown to
results/.

    python benchmarks/robot_first_batch.py --file-mb 100 --rounds 3
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests' server and proxy

import numpy as np
import robot_ours  # imports all that a run needs
from robot_data import CAMERAS, FPS, frames
from robot_jobs import BATCH

from penstock.curate.robot.writer import Episode, Layout, write_dataset
from penstock.media.video.encoding import Encoding, write_video
from penstock.store.pull import pull
from penstock.store.remote.options import StoreOptions
from tests.servers.faultproxy import FaultProxy, Rule
from tests.servers.weed import S3Server, running_server

FILES = 12  # per camera
FRAMES = 300  # of an episode
HEIGHT = 480
WIDTH = 640
LATENCY_SECONDS = 0.020
ENCODING = Encoding("h264", crf=23)


def write(folder: Path, file_bytes: int) -> None:
    """Write a dataset with videos of some size. All episodes of a camera show the same."""
    clips = {camera: frames(HEIGHT, WIDTH, FRAMES, seed) for seed, camera in enumerate(CAMERAS)}
    write_video(folder / "one.mp4", [clips[CAMERAS[0]]], FPS, ENCODING)
    per_file = -(-file_bytes // (folder / "one.mp4").stat().st_size)
    (folder / "one.mp4").unlink()
    random = np.random.default_rng(0)
    episodes = [
        Episode("push", {"action": random.normal(size=(FRAMES, 7)).astype(np.float32), **clips})
        for _ in range(per_file * FILES)
    ]
    layout = Layout(episodes_per_video_file=per_file, episodes_per_data_file=per_file, encoding=ENCODING)
    write_dataset(folder, episodes, fps=FPS, layout=layout)


def fill_bucket(server: S3Server, folder: Path) -> int:
    """Upload a dataset. Returns its size."""
    total = 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        server.put(path.relative_to(folder).as_posix(), path.read_bytes())
        total += path.stat().st_size
    return total


def first_batch(**run: Any) -> list[str]:
    feed = robot_ours.penstock.robot(batch_size=BATCH, rank=0, world=1, **run)
    ids: list[str] = feed.batch(0)["ids"]
    feed.close()
    return ids


def timed(way: str, server: S3Server, proxy: FaultProxy, folder: Path) -> tuple[float, list[str]]:
    url = f"s3://{server.bucket}"
    begin = time.perf_counter()
    if way == "whole":
        pull(url, folder, options=StoreOptions(proxy.url, "us-east-1"))
        ids = first_batch(store=str(folder))
    else:
        remote = {"endpoint": proxy.url, "region": "us-east-1"}
        ids = first_batch(store=url, remote=remote, cache={"dir": str(folder), "size": "10GB"})
    return time.perf_counter() - begin, ids


def measure(file_bytes: int, rounds: int) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {"ranges": [], "whole": []}
    sent: dict[str, list[int]] = {"ranges": [], "whole": []}
    requests: dict[str, list[int]] = {"ranges": [], "whole": []}
    with tempfile.TemporaryDirectory() as scratch, running_server(Path(scratch) / "s3") as server:
        os.environ.update(server.environment())
        data = Path(scratch) / "data"
        data.mkdir()
        write(data, file_bytes)
        total = fill_bucket(server, data)
        with FaultProxy(server.url) as proxy:
            for number in range(rounds):
                batches = []
                for way in ("whole", "ranges"):
                    proxy.clear()
                    proxy.rules(Rule("delay", method="", seconds=LATENCY_SECONDS))
                    with tempfile.TemporaryDirectory(dir=scratch) as fresh:
                        took, ids = timed(way, server, proxy, Path(fresh))
                    seconds[way].append(took)
                    sent[way].append(sum(request.sent for request in proxy.log()))
                    requests[way].append(len(proxy.log()))
                    batches.append(ids)
                assert batches[0] == batches[1], f"round {number}: both ways make the same batch"
    medians = {way: statistics.median(each) for way, each in seconds.items()}
    return {
        "videos": FILES * len(CAMERAS),
        "file_bytes": file_bytes,
        "total_bytes": total,
        "latency_ms": LATENCY_SECONDS * 1e3,
        "rounds": rounds,
        "seconds": seconds,
        "bytes_sent": sent,
        "requests": requests,
        "median_seconds": medians,
        "ratio_of_medians": medians["whole"] / medians["ranges"],
    }


def markdown(result: dict[str, Any]) -> str:
    medians = result["median_seconds"]
    data = (
        f"{result['videos']} videos of {result['file_bytes'] / 1e6:.0f} MB, {result['latency_ms']:.0f} ms per request"
    )
    return (
        f"| cold first batch of {BATCH}: {data} | whole files first {medians['whole']:.1f} s "
        f"| the frames' own bytes {medians['ranges']:.2f} s | {result['ratio_of_medians']:.0f}× sooner |\n"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--file-mb", type=int, default=100)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    result = measure(given.file_mb * 10**6, given.rounds)
    results = Path(__file__).parent / "results"
    (results / "robot_first_batch.json").write_text(json.dumps(result, indent=2) + "\n")
    (results / "robot_first_batch.md").write_text(markdown(result))
    print(markdown(result), end="")


if __name__ == "__main__":
    main()
