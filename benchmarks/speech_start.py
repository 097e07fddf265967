"""How long until the first batch: of a fresh run, and of one resumed at step 2,000 and at 10⁹. JSON to stdout.

Every figure is the median over processes of their own. What is imported is timed apart: ``import penstock`` alone, then
all that the job needs (torch, pyarrow, the decoders).
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

STEPS = {"fresh": 0, "step 2,000": 2_000, "step 10^9": 10**9}
CHILD = """
import sys, time
begin = time.perf_counter()
import penstock
light = time.perf_counter()
import numpy, pyarrow, torch, soundfile, soxr
import penstock.feed, penstock.loader, penstock.observe.ledger, penstock.recipes.speech, penstock.recipes.whole_speech
from pathlib import Path
from speech_ours import open_feed
ready = time.perf_counter()
feed = open_feed(Path(sys.argv[1]), "wav")
opened = time.perf_counter()
loader = feed.loader(threads=2)
if int(sys.argv[2]):
    loader.load_state_dict(feed.state(int(sys.argv[2])))
batch = next(loader)
end = time.perf_counter()
print(*(1000 * seconds for seconds in (light - begin, ready - light, opened - ready, end - opened)), batch["step"])
loader.close()
"""
FIGURES = ("import_penstock_ms", "other_imports_ms", "open_ms", "first_batch_ms")


def run(folder: Path, step: int) -> list[float]:
    command = [sys.executable, "-c", CHILD, str(folder), str(step)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent).stdout
    *figures, started = map(float, printed.split())
    assert started == step
    return figures


def medians(runs: list[list[float]]) -> dict[str, float]:
    return dict(zip(FIGURES, map(statistics.median, zip(*runs, strict=True)), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("bench-data/speech"))
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    rounds = [
        {name: run(options.folder.absolute(), step) for name, step in STEPS.items()} for _ in range(options.rounds)
    ]
    report = {
        name: dict(
            zip(FIGURES, map(statistics.median, zip(*(each[name] for each in rounds), strict=True)), strict=True)
        )
        for name in STEPS
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
