"""What packs cost: padding per capacity and group, µs per sample, and how many samples change packs between epochs.

A second table is of small sources with short samples, beside best-fit decreasing over exact lengths as the textbooks
have it, which shuffles nothing, and the least padding that any whole number of packs can have.

python benchmarks/packs.py [--samples 65_536] [--median 300] [--sigma 1.0]
"""

import argparse
import math
import time

import numpy as np

from penstock.plan.draws import Ints, key
from penstock.text.packs import Packs, deal

REPETITIONS = 3
SMALL_SAMPLES = 2_100
SMALL_SOURCES = 20
SMALL_MEDIAN = 65.0  # tokens; about 105 on average


def lognormal(samples: int, median: float, sigma: float, capacity: int, seed: int = 7) -> Ints:
    """Lengths of chat samples; those that are too long are cut."""
    drawn = np.random.default_rng(seed).lognormal(math.log(median), sigma, samples)
    return np.clip(drawn.astype(np.int64), 1, capacity)


def dealt(lengths: Ints, capacity: int, group: int, epoch: int) -> list[Packs]:
    groups = range(0, len(lengths), group)
    return [deal(lengths[start : start + group], capacity, key("packs", start, epoch)) for start in groups]


def padding_of(lengths: Ints, packs: int, capacity: int) -> float:
    return float(1 - lengths.sum() / (packs * capacity))


def textbook(lengths: Ints, capacity: int) -> int:
    """The packs of best-fit decreasing: each sample goes into the fullest pack that has room for it."""
    spaces = np.zeros(0, dtype=np.int64)
    for length in sorted(lengths.tolist(), reverse=True):
        left = np.where(spaces >= length, spaces, capacity + 1)
        if len(left) and left.min() <= capacity:
            spaces[left.argmin()] -= length
        else:
            spaces = np.append(spaces, capacity - length)
    return len(spaces)


def small(capacity: int) -> tuple[float, float, float, float, float]:
    """Return the tokens of a sample, ours, the textbook's and the least padding, and the share that moves: means."""
    found = []
    for seed in range(SMALL_SOURCES):
        lengths = lognormal(SMALL_SAMPLES, SMALL_MEDIAN, 1.0, capacity, seed)
        ours, _, moved = measure(lengths, capacity, SMALL_SAMPLES)
        peer = padding_of(lengths, textbook(lengths, capacity), capacity)
        least = padding_of(lengths, -(-int(lengths.sum()) // capacity), capacity)
        found.append((lengths.mean(), ours, peer, least, moved))
    tokens, ours, peer, least, moved = np.mean(found, axis=0).tolist()
    return tokens, ours, peer, least, moved


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
    padding = padding_of(lengths, sum(map(len, first)), capacity)
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
    print(f"\nMeans of {SMALL_SOURCES} sources of {SMALL_SAMPLES:,} samples:\n")
    print("| max_length | tokens per sample | padding | textbook | least possible | in another pack an epoch later |")
    print("|---|---|---|---|---|---|")
    for capacity in (512, 1_024, 4_096):
        tokens, ours, peer, least, moved = small(capacity)
        print(f"| {capacity:,} | {tokens:.0f} | {ours:.2%} | {peer:.2%} | {least:.2%} | {moved:.0%} |")


if __name__ == "__main__":
    main()
