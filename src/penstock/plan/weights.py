"""Weights of a mixture as whole numbers: the slots of each source in a period. Knows no order."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm

PERIOD = 65_537  # a prime, so that it is coprime to any number of lanes


def temper(amounts: Mapping[str, float], temperature: float) -> dict[str, float]:
    """Return weights ∝ amount^T: T=1 is proportional, T<1 raises small sources, T=0 is equal.

    Args:
        amounts: Amount of each source. An amount of 0 gives the weight 0.
        temperature: Exponent T.
    """
    if temperature == 1:
        return dict(amounts)
    return {name: amount**temperature if amount else 0.0 for name, amount in amounts.items()}


def stages(before: Mapping[str, int], after: Mapping[str, int], count: int) -> Iterator[dict[str, Fraction]]:
    """Yield weights that change from those of one mixture to those of another, in equal changes.

    Args:
        before: Slots of each source in a period of the mixture before.
        after: Slots of each source in a period of the mixture after.
        count: Number of changes. The last, to ``after`` itself, is left out.
    """
    old = sum(before.values())
    new = sum(after.values())
    for done in range(1, count):
        share = Fraction(done, count)
        yield {name: (1 - share) * slots / old + share * after[name] / new for name, slots in before.items()}


def slot_counts(weights: Mapping[str, float | Fraction], lanes: int = 1) -> dict[str, int]:
    """Return the slots of each source in a period.

    Small exact ratios keep their own period if it is coprime to the number of lanes (equal weights: one slot each, a
    true round-robin). All others share 65,537 slots by largest remainder.

    Raises:
        ValueError: If a weight is negative or not finite, if all weights are 0, or if a positive weight is too small
            for one slot.
    """
    for name, weight in weights.items():
        if not 0 <= weight < float("inf"):
            raise ValueError(f"the weight of {name!r} is {weight}; a weight is a finite number, 0 or more")
    exact = {name: Fraction(str(weight)) for name, weight in weights.items()}
    if not any(exact.values()):
        raise ValueError("every weight of the mixture is 0; at least one source must have a positive weight")
    scale = lcm(*(fraction.denominator for fraction in exact.values()))
    shares = {name: int(fraction * scale) for name, fraction in exact.items()}
    common = gcd(*shares.values())
    shares = {name: share // common for name, share in shares.items()}
    total = sum(shares.values())
    if total < PERIOD and gcd(total, lanes) == 1:
        return shares
    return _largest_remainder(shares, total)


def shared_residents(changes: Sequence[tuple[int, tuple[int, ...]]], total: int, each: int) -> list[int]:
    """Return the number of resident groups of each source: a total, shared by weight, at least one per source.

    A source has its share of the first mixture that draws from it. So later changes, and sources that come later, leave
    the order of the others as it is.

    Args:
        changes: (first slot, slots per source in a period) of every mixture.
        total: Resident groups over all sources.
        each: Maximum per source.
    """
    found = [1] * len(changes[0][1])
    for _, counts in reversed(changes):
        period = sum(counts)
        for source, count in enumerate(counts):
            if count:
                found[source] = max(1, min(each, total * count // period))
    return found


def _largest_remainder(shares: Mapping[str, int], total: int) -> dict[str, int]:
    counts = {name: share * PERIOD // total for name, share in shares.items()}
    by_remainder = sorted(shares, key=lambda name: -(shares[name] * PERIOD % total))  # stable: ties by given order
    for name in by_remainder[: PERIOD - sum(counts.values())]:
        counts[name] += 1
    for name, share in shares.items():
        if share and not counts[name]:
            raise ValueError(
                f"the weight of {name!r} is {share / total:.2g} of the whole, less than one slot in {PERIOD:,}; "
                "raise it, lower the temperature, or leave the source out"
            )
    return counts
