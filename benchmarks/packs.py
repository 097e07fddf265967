"""What packs cost: padding per capacity and group, µs per sample, and how many samples change packs between epochs.

python benchmarks/packs.py [--samples 65_536] [--median 300] [--sigma 1.0]
"""

import argparse
import math
import time

import numpy as np

from penstock.plan.draws import Ints, key
from penstock.text.packs import Packs, deal

REPETITIONS = 3


def lognormal(samples: int, median: float, sigma: float, capacity: int) -> Ints:
    """Lengths of chat samples; those that are too long are cut."""
    drawn = np.random.default_rng(7).lognormal(math.log(median), sigma, samples)
    return np.clip(drawn.astype(np.int64), 1, capacity)


def dealt(lengths: Ints, capacity: int, group: int, epoch: int) -> list[Packs]:
    groups = range(0, len(lengths), group)
    return [deal(lengths[start : start + group], capacity, key("packs", start, epoch)) for start in groups]


def measure(lengths: Ints, capacity: int, group: int) -> tuple[float, float, float]:
    """Return the share of padding, µs per sample, and the share of samples in another pack an epoch later."""
    seconds = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        first = dealt(lengths, capacity, group, 0)
        seconds.append(time.perf_counter() - start)
    second = dealt(lengths, capacity, group, 1)
    everyone = [np.arange(len(packs.samples)) for packs in first]
    moved = [np.mean(a.of(all_of) != b.of(all_of)) for a, b, all_of in zip(first, second, everyone, strict=True)]
    padding = 1 - lengths.sum() / (sum(map(len, first)) * capacity)
    return padding, sorted(seconds)[REPETITIONS // 2] / len(lengths) * 1e6, float(np.mean(moved))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=65_536)
    parser.add_argument("--median", type=float, default=300.0, help="tokens of the middle sample")
    parser.add_argument("--sigma", type=float, default=1.0, help="of the logarithm of the lengths")
    arguments = parser.parse_args()
    print("| max_length | group | padding | µs per sample | in another pack an epoch later |")
    print("|---|---|---|---|---|")
    for capacity in (2_048, 4_096, 8_192, 32_768, 131_072):
        lengths = lognormal(arguments.samples, arguments.median, arguments.sigma, capacity)
        for group in (1_024, 8_192):
            padding, microseconds, moved = measure(lengths, capacity, group)
            print(f"| {capacity:,} | {group:,} | {padding:.2%} | {microseconds:.2f} | {moved:.0%} |")


if __name__ == "__main__":
    main()
