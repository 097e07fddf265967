"""Downloading through the node cache against obstore alone, from one real S3 server on loopback. JSON to stdout.

Both ask for the same ranges with the same number of requests at once. obstore alone drops what it gets; the cache has
every byte in its files, marked and readable by all processes. Rounds are interleaved, each with a new cache: once in
memory, which shows what the cache costs, and once on the disk, with what that disk can take.
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

from penstock.store.cache import NodeCache
from penstock.store.cached import CachedStore
from penstock.store.options import StoreOptions
from penstock.store.parts import REQUEST_BYTES
from penstock.store.urls import open_remote
from tests.servers.weed import S3Server, running_server

OBJECTS, OBJECT_BYTES, CONCURRENCY, ROUNDS = 3, 128 << 20, 8, 9


def alone(server: S3Server) -> float:
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
        return len(obstore.get_range(client, f"shard-{number}", start=start, end=end))

    begin = time.perf_counter()
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        for number in range(OBJECTS):
            starts = range(0, OBJECT_BYTES, REQUEST_BYTES)
            assert sum(pool.map(get, [number] * len(starts), starts)) == OBJECT_BYTES
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
    rates: dict[str, list[float]] = {"obstore": [], "cache": [], "writing": []}
    for _ in range(ROUNDS):
        rates["obstore"].append(alone(server))
        with tempfile.TemporaryDirectory(dir=place) as fresh:
            rates["cache"].append(through_the_cache(server, Path(fresh)))
        with tempfile.TemporaryDirectory(dir=place) as fresh:
            rates["writing"].append(writing(Path(fresh)))
    ratios = [ours / theirs for ours, theirs in zip(rates["cache"], rates["obstore"], strict=True)]
    medians = {f"{name}_mb_a_second": statistics.median(each) / 1e6 for name, each in rates.items()}
    return {**medians, "share_percent": statistics.median(ratios) * 100}


def writing(folder: Path) -> float:
    """What the place takes when it has to keep it."""
    data = os.urandom(REQUEST_BYTES)
    begin = time.perf_counter()
    with (folder / "file").open("wb") as file:
        for _ in range(OBJECT_BYTES // REQUEST_BYTES):
            file.write(data)
        os.fdatasync(file.fileno())
    return OBJECT_BYTES / (time.perf_counter() - begin)


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
