"""The first batch from a cold cache: by the indexed manifest, and by whole shards first. JSON and Markdown to results/.

A real S3 server on loopback, every request held up by 20 ms on its way; 12 sources, 4 pooled shards each. ``whole`` is
what a reader without offsets does: all shards of the pool are downloaded, eight requests at once, then the same batch
is read from them. Both run by turns, each round with an empty cache; imports and opening the run are not counted. The
ratio falls with a faster line: here the proxy, in Python, passes 200 to 300 MB/s, and whole shards take all of that.

    python benchmarks/first_batch.py --shard-mb 100 --rounds 3
"""

import argparse
import io
import json
import os
import statistics
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests' server and proxy

import penstock
from penstock.readers.tar.archive import add_file
from penstock.readers.tar.index import index_shards
from penstock.store.cache.shards import ShardCache
from penstock.store.remote.direct import DirectStore
from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from tests.servers.faultproxy import FaultProxy, Rule
from tests.servers.weed import S3Server, running_server

SOURCES, SHARDS, BATCH, SAMPLE_BYTES, LATENCY = 12, 4, 16, 320_044, 0.020  # a sample: 10 s of 16 kHz, 16 bit


def shard(source: int, number: int, size: int) -> Iterator[tuple[str, bytes]]:
    """Samples of random bytes, so that nothing on the way can shorten them."""
    noise = os.urandom(SAMPLE_BYTES)
    for place in range(size // (SAMPLE_BYTES + 1_024)):
        yield f"{source:02}_{number}_{place:05}", place.to_bytes(8, "big") + noise[8:]


def tar_of(source: int, number: int, size: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in shard(source, number, size):
            add_file(tar, f"{name}.wav", data)
    return buffer.getvalue()


def fill_bucket(server: S3Server, size: int) -> list[str]:
    paths = []
    for source in range(SOURCES):
        for number in range(SHARDS):
            paths.append(f"source-{source:02}/shard-{number}.tar")
            server.put(paths[-1], tar_of(source, number, size))
    return paths


def run_of(server: S3Server, proxy: FaultProxy, folder: Path, index: Path) -> dict[str, Any]:
    return {
        "manifest": index,
        "store": f"s3://{server.bucket}",
        "remote": {"endpoint": proxy.url, "region": "us-east-1"},
        "cache": {"dir": folder, "size": "50GB"},
        "global_batch_size": BATCH,
        "pool": SHARDS,
        "mixture": {"weights": "equal"},
    }


def indexed(run: dict[str, Any]) -> tuple[float, list[str]]:
    feed = penstock.open(run, rank=0, world=1)
    begin = time.perf_counter()
    batch = feed.batch(0)
    seconds = time.perf_counter() - begin
    feed.close()
    return seconds, batch["ids"]


def whole(run: dict[str, Any], paths: list[str]) -> tuple[float, list[str]]:
    """Eight requests at once in all, as the indexed run has: shards one by one, each in eight parts at a time."""
    feed = penstock.open(run, rank=0, world=1)
    remote = open_remote(run["store"], StoreOptions(run["remote"]["endpoint"], "us-east-1"))
    cache = ShardCache(run["cache"]["dir"], max_size_gb=50, remote=remote)
    begin = time.perf_counter()
    held = [cache.get_shard(path) for path in paths]
    batch = feed.batch(0)
    seconds = time.perf_counter() - begin
    assert all(path.exists() for path in held)
    cache.close()
    feed.close()
    return seconds, batch["ids"]


def measure(size: int, rounds: int) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {"indexed": [], "whole": []}
    sent: dict[str, list[int]] = {"indexed": [], "whole": []}
    with tempfile.TemporaryDirectory() as scratch, running_server(Path(scratch) / "s3") as server:
        folder = Path(scratch)
        os.environ.update(server.environment())
        paths = fill_bucket(server, size)
        store = DirectStore(open_remote(f"s3://{server.bucket}", StoreOptions(server.url, "us-east-1")))
        index_shards(store, paths, folder / "index", threads=2)
        with FaultProxy(server.url) as proxy:
            for number in range(rounds):
                ids = []
                for way in ("whole", "indexed"):
                    proxy.clear()
                    proxy.rules(Rule("delay", method="", seconds=LATENCY))
                    with tempfile.TemporaryDirectory(dir=folder) as fresh:
                        run = run_of(server, proxy, Path(fresh), folder / "index")
                        took, batch = indexed(run) if way == "indexed" else whole(run, paths)
                    seconds[way].append(took)
                    sent[way].append(sum(request.sent for request in proxy.log()))
                    ids.append(batch)
                assert ids[0] == ids[1], f"round {number}: both ways make the same batch"
    medians = {way: statistics.median(each) for way, each in seconds.items()}
    return {
        "sources": SOURCES,
        "shards_a_source": SHARDS,
        "shard_bytes": size,
        "latency_ms": LATENCY * 1e3,
        "rounds": rounds,
        "indexed_seconds": seconds["indexed"],
        "whole_seconds": seconds["whole"],
        "indexed_bytes_sent": sent["indexed"],
        "whole_bytes_sent": sent["whole"],
        "median_indexed_seconds": medians["indexed"],
        "median_whole_seconds": medians["whole"],
        "ratio_of_medians": medians["whole"] / medians["indexed"],
    }


def markdown(result: dict[str, Any]) -> str:
    data = (
        f"{SOURCES} sources × {SHARDS} shards of {result['shard_bytes'] / 1e6:.0f} MB, {LATENCY * 1e3:.0f} ms a request"
    )
    return (
        f"| cold first batch: {data} | whole shards first {result['median_whole_seconds']:.1f} s "
        f"| indexed {result['median_indexed_seconds']:.2f} s | {result['ratio_of_medians']:.0f}× sooner |\n"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--shard-mb", type=int, default=100)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    result = measure(given.shard_mb * 10**6, given.rounds)
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "first_batch.json").write_text(json.dumps(result, indent=2) + "\n")
    (results / "first_batch.md").write_text(markdown(result))
    print(markdown(result), end="")


if __name__ == "__main__":
    main()
