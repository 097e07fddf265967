"""Downloading through the node cache against obstore alone, from one real S3 server on loopback. JSON to stdout.

All ask for the same ranges with the same number of requests at once. obstore alone either drops what it gets or writes
it to plain files in the same place; the cache has every byte in its files, marked and readable by all processes. Rounds
are interleaved, each in a new folder: once in memory, which shows what the cache costs, and once on the disk. A share
is the median of the rounds' ratios.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests' server

import obstore
from obstore.store import S3Store

from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.entry import REQUEST_BYTES
from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from tests.servers.weed import S3Server, running_server

OBJECTS, OBJECT_BYTES, CONCURRENCY, ROUNDS = 3, 128 << 20, 8, 15


def alone(server: S3Server, folder: Path | None) -> float:
    """obstore with what it gets written to plain files, or without a folder dropped."""
    client = S3Store(
        server.bucket,
        endpoint=server.url,
        region="us-east-1",
        access_key_id=server.access_key,
        secret_access_key=server.secret_key,
        client_options={"allow_http": True},
    )

    def get(number: int, start: int) -> int:
        end = min(start + REQUEST_BYTES, OBJECT_BYTES)
        data = memoryview(obstore.get_range(client, f"shard-{number}", start=start, end=end))
        return os.pwrite(files[number], data, start) if files else len(data)

    begin = time.perf_counter()
    files = [os.open(folder / f"{number}", os.O_WRONLY | os.O_CREAT) for number in range(OBJECTS)] if folder else []
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        for number in range(OBJECTS):
            starts = range(0, OBJECT_BYTES, REQUEST_BYTES)
            assert sum(pool.map(get, [number] * len(starts), starts)) == OBJECT_BYTES
    for file in files:
        os.close(file)
    return OBJECTS * OBJECT_BYTES / (time.perf_counter() - begin)


def through_the_cache(server: S3Server, folder: Path) -> float:
    cache = NodeCache(folder, OBJECTS * OBJECT_BYTES, concurrency=CONCURRENCY)
    store = CachedStore(open_remote(f"s3://{server.bucket}", StoreOptions(server.url, "us-east-1")), cache)
    begin = time.perf_counter()
    for number in range(OBJECTS):
        blob = store.open(f"shard-{number}")
        blob.fetch_whole()
        blob.close()
    rate = OBJECTS * OBJECT_BYTES / (time.perf_counter() - begin)
    store.close()
    return rate


def compare(server: S3Server, place: str) -> dict[str, float]:
    ways = {
        "obstore_dropped": lambda _: alone(server, None),
        "obstore_written": lambda folder: alone(server, folder),
        "cache": lambda folder: through_the_cache(server, folder),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(ROUNDS):
        for name in list(ways)[number % 3 :] + list(ways)[: number % 3]:
            with tempfile.TemporaryDirectory(dir=place) as fresh:
                rates[name].append(ways[name](Path(fresh)))
    figures = {f"{name}_mb_a_second": statistics.median(each) / 1e6 for name, each in rates.items()}
    for other in ("obstore_dropped", "obstore_written"):
        ratios = [ours / theirs for ours, theirs in zip(rates["cache"], rates[other], strict=True)]
        figures[f"cache_percent_of_{other}"] = statistics.median(ratios) * 100
    return figures


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder) / "s3") as server:
        os.environ.update(server.environment())
        for number in range(OBJECTS):
            server.put(f"shard-{number}", os.urandom(OBJECT_BYTES))
        places = {"memory": "/dev/shm", "disk": folder}
        results = {name: compare(server, place) for name, place in places.items()}
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
