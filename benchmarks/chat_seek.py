"""A step from cold: a run of packs is opened, then far steps are made that nothing was made before. JSON to stdout.

The first batch of a run also loads its tokenizer, at any step; a second far step shows what the step itself takes.

python benchmarks/chat_seek.py bench-data/chat
"""

import argparse
import json
import statistics
import time
from pathlib import Path

from chat_ours import run

STEPS = (1_000, 54_321, 1_000_000, 123_456_789)
ELSEWHERE = 7_654_321  # steps from there


def main() -> None:
    import penstock

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.absolute()
    keys = run(folder, "text")
    penstock.open(keys, rank=0, world=1).batch(0)  # imports, and the index if it is not made yet
    opened = []
    planned = []
    made = []
    next_made = []
    for step in STEPS:
        began = time.perf_counter()
        feed = penstock.open(keys, rank=0, world=1)
        ready = time.perf_counter()
        list(feed.lines(step))
        known = time.perf_counter()
        feed.batch(step)
        done = time.perf_counter()
        feed.batch(step + ELSEWHERE)
        next_made.append(time.perf_counter() - done)
        made.append(done - ready)
        opened.append(ready - began)
        planned.append(known - ready)
    figures = {
        "opening, ms": opened,
        "planning a far step, ms": planned,
        "planning and making it, with the tokenizer's loading, ms": made,
        "planning and making another far step, ms": next_made,
    }
    print(json.dumps({name: round(1e3 * statistics.median(each), 1) for name, each in figures.items()}))


if __name__ == "__main__":
    main()
