"""What it costs to admit an entry to a node cache that already holds many. JSON to stdout.

A cache at its bound: every admission must make room. Of a cache with 20,000 entries a few thousand are admitted, so
that the looks at all files, which happen now and then, are in the mean.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from penstock.store.cache.cache import NodeCache

ENTRY_BYTES = 100_000
FOLDERS = 50


def admit(cache: NodeCache, number: int) -> None:
    path = cache.root / "s3" / "bucket" / f"{number % FOLDERS:03}" / f"{number}~1@0-{ENTRY_BYTES}.data"
    cache.admission.enter(path, ENTRY_BYTES, 0).close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=20_000)
    parser.add_argument("--admissions", type=int, default=4_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cache = NodeCache(Path(folder) / "cache", arguments.entries * ENTRY_BYTES)
        for number in range(arguments.entries):
            admit(cache, number)
        times = []
        for number in range(arguments.entries, arguments.entries + arguments.admissions):
            begin = time.perf_counter()
            admit(cache, number)
            times.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        cache.admission.residents()
        look = time.perf_counter() - begin
    figures = {
        "entries": arguments.entries,
        "mean_ms": statistics.mean(times) * 1e3,
        "median_ms": statistics.median(times) * 1e3,
        "longest_ms": max(times) * 1e3,
        "look_at_all_files_ms": look * 1e3,
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
