"""What a warm node cache costs over reading the same files directly. JSON to stdout.

Both read the very same files of the cache, at the same random places, through the interface that sources use; the page
cache is warm. Rounds are interleaved; a figure is the median over rounds, a cost the median of the rounds' ratios, in
time that passed and, as a machine may be busy with other things, in time that the processor spent.
"""

import json
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.store.blob import Blob
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.local import LocalStore
from penstock.store.remote.opening import open_remote

FILES, FILE_BYTES, ROUNDS = 8, 32 << 20, 41
# Six seconds of 16 kHz PCM as a shard's member has them; a small member, where the fixed cost of a read shows most.
READS = {"192 kB": (192_044, 400), "16 kB": (16_384, 2_000)}


Times = tuple[float, float]  # passed, spent


def seconds(blobs: Sequence[Blob], size: int, count: int, threads: int, seed: int) -> Times:
    def read_some(number: int) -> None:
        rng = random.Random(seed + number)
        buffer = memoryview(bytearray(size))
        for _ in range(count // threads):
            blobs[rng.randrange(FILES)].readinto(buffer, rng.randrange(FILE_BYTES - size))

    with ThreadPoolExecutor(threads) as pool:
        passed, spent = time.perf_counter(), time.process_time()
        list(pool.map(read_some, range(threads)))
        return time.perf_counter() - passed, time.process_time() - spent


def compare(direct: Sequence[Blob], cached: Sequence[Blob], size: int, count: int, threads: int) -> dict[str, float]:
    times: dict[str, list[Times]] = {"direct": [], "cached": []}
    for number in range(ROUNDS):
        pair = [("direct", direct), ("cached", cached)]
        for name, blobs in pair[:: 1 if number % 2 else -1]:
            times[name].append(seconds(blobs, size, count, threads, number))
    pairs = list(zip(times["cached"], times["direct"], strict=True))
    return {
        "direct_us_a_read": statistics.median(passed for passed, _ in times["direct"]) / count * 1e6,
        "cached_us_a_read": statistics.median(passed for passed, _ in times["cached"]) / count * 1e6,
        "cost_percent": (statistics.median(ours[0] / theirs[0] for ours, theirs in pairs) - 1) * 100,
        "cpu_cost_percent": (statistics.median(ours[1] / theirs[1] for ours, theirs in pairs) - 1) * 100,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bucket, root = Path(folder) / "bucket", Path(folder) / "cache"
        bucket.mkdir()
        for number in range(FILES):
            (bucket / f"{number}.tar").write_bytes(random.Random(number).randbytes(FILE_BYTES))
        store = CachedStore(open_remote(bucket.as_uri()), NodeCache(root, 2 * FILES * FILE_BYTES))
        cached = [store.open(f"{number}.tar") for number in range(FILES)]
        for blob in cached:
            blob.fetch_whole()
        direct = [LocalStore(root).open(str(blob.path.relative_to(root))) for blob in cached]
        results = {
            f"{name}, {threads} threads": compare(direct, cached, size, count, threads)
            for name, (size, count) in READS.items()
            for threads in (1, 2)
        }
        store.close()
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
