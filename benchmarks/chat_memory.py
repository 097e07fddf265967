"""Memory over many batches of text, with kept tokens so that there is time for many. JSON to stdout.

python benchmarks/chat_memory.py bench-data/chat 10000
"""

import argparse
import json
from pathlib import Path

from chat_ours import KEPT, run
from held import held_megabytes

POINTS = (0.1, 0.25, 0.5, 1.0)


def main() -> None:
    import penstock

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("batches", type=int)
    options = parser.parse_args()
    wanted = {round(share * options.batches) for share in POINTS}
    found = {}
    with penstock.open(run(options.folder.absolute(), "text", cache=KEPT), rank=0, world=1).loader(threads=2) as loader:
        for number, _ in enumerate(loader, start=1):
            if number in wanted:
                found[f"held after {number:,} batches, MB"] = round(held_megabytes(), 1)
            if number >= options.batches:
                break
    print(json.dumps(found))


if __name__ == "__main__":
    main()
