"""What a warm node cache costs a whole feed: the speech job out of the cache against the same out of a folder. JSON.

Same shards, same steps, no features. The data comes once from a real S3 server on loopback; then both are walked in
turns. The folder is read as the cache is, with ``preadv`` and not through memory maps: what the cache itself costs is
to be seen. Costs are medians of the rounds' ratios, in time that passed and in time that the processor spent.

python benchmarks/speech_data.py && PYTHONPATH=. python benchmarks/cache_feed.py
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests' server
os.environ["OMP_NUM_THREADS"] = "1"

from speech_data import HOURS

import penstock
from penstock.readers.tar.member import MemberFile
from tests.servers.weed import S3Server, running_server

DATA = Path("bench-data/speech")
WARM_UP, ROUNDS, STEPS, BATCH = 3_000, 15, 150, 16


def open_feed(**where: Any) -> penstock.Feed:
    return penstock.open(
        recipe="speech",
        manifest=DATA / "wav.manifest",
        batch_size=BATCH,
        mixture={"weights": HOURS},
        speech={"features": False},
        **where,
    )


def walk(batches: Iterator[Any], steps: int) -> tuple[float, float]:
    passed, spent = time.perf_counter(), time.process_time()
    for _ in range(steps):
        next(batches)
    return time.perf_counter() - passed, time.process_time() - spent


def compare(server: S3Server, cache: Path, threads: int) -> dict[str, float]:
    MemberFile.in_place = lambda _: None
    remote = {"endpoint": server.url, "region": "us-east-1"}
    local = open_feed(store=str(DATA / "wav"))
    cached = open_feed(store=f"s3://{server.bucket}", remote=remote, cache={"dir": cache, "size": "10GB"})
    rounds = []
    with local.loader(threads=threads) as direct, cached.loader(threads=threads) as through:
        walk(direct, WARM_UP)
        walk(through, WARM_UP)
        before = cached.cache_counts()["misses"]
        for number in range(ROUNDS):
            pair = [("direct", direct), ("cached", through)][:: 1 if number % 2 else -1]
            rounds.append({name: walk(batches, STEPS) for name, batches in pair})
        missed = cached.cache_counts()["misses"] - before
    cached.close()
    return {
        "direct_us_a_sample": statistics.median(each["direct"][0] for each in rounds) / STEPS / BATCH * 1e6,
        "cost_percent": statistics.median(each["cached"][0] / each["direct"][0] for each in rounds) * 100 - 100,
        "cpu_cost_percent": statistics.median(each["cached"][1] / each["direct"][1] for each in rounds) * 100 - 100,
        "misses": missed,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder) / "s3") as server:
        os.environ.update(server.environment())
        for path in sorted((DATA / "wav").rglob("*.tar")):
            server.put(path.relative_to(DATA / "wav").as_posix(), path.read_bytes())
        results = {f"{threads} threads": compare(server, Path(folder) / "cache", threads) for threads in (0, 2)}
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
