"""Cuts one window: sorts its slots by length and deals them to steps and units. Knows no items and no other window.

sorted, longest first     a a | b b b b | c c c c c c | d d d d d d d d
dealt to two units        a   | b b     | c c c       | d d d d            k = budget // longest of the step
                          a   | b b     | c c c       | d d d d            samples per unit
steps shuffled            c · a · d · b
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.plan.draws import Ints, Words, key, permutation, words


class Rule(NamedTuple):
    """How windows are cut.

    Attributes:
        units: Units per step, a multiple of the lanes.
        budget: Maximum length of a unit when padded: its samples times the longest of them.
        lanes: Number of lanes; slot s belongs to lane s mod lanes.
        alone: Whether a sample that is longer than the budget has a unit for itself. Otherwise it is left out.
        seed: Seed of the run.
    """

    units: int
    budget: int
    lanes: int
    alone: bool
    seed: int

    @property
    def per_lane(self) -> int:
        """Units of a step per lane."""
        return self.units // self.lanes


@dataclass(frozen=True, slots=True)
class DealtWindow:
    """The slots of a window, dealt to steps and units.

    Attributes:
        slots: Slots in the order of steps, of units within a step, and of samples within a unit.
        unit_starts: First place in ``slots`` of each unit, and the number of slots.
        step_units: Number of the first unit of each step, and the number of units.
        ranked: Slots of each lane, longest first; without those that are left out.
        left_out: Slots that are longer than the budget, and in no step.
    """

    slots: Ints
    unit_starts: Ints
    step_units: Ints
    ranked: tuple[Ints, ...]
    left_out: Ints

    def bounds(self, step: int) -> tuple[int, int]:
        """Return the places of the slots of a step: the first one, and the one after the last."""
        first, after = self.step_units[step : step + 2]
        return int(self.unit_starts[first]), int(self.unit_starts[after])


class Ranked(NamedTuple):
    """The slots of a window in the order of their lengths.

    Attributes:
        slots: Slots of each lane, longest first, without those that are left out.
        longest: Length of the longest sample over all lanes, by rank.
        left_out: Slots that are longer than the budget.
    """

    slots: tuple[Ints, ...]
    longest: Ints
    left_out: Ints


def deal(ranked: Ranked, rule: Rule, steps: int, window: int) -> DealtWindow:
    """Deal the slots of a window to steps.

    A step takes the same number of slots from every lane, k per unit. Slots that do not fit into the steps become
    additional units, never larger ones.

    Args:
        ranked: Slots of the window.
        rule: How to cut.
        steps: Number of steps.
        window: Key of the window, for the order of its steps.
    """
    sizes = _block_sizes(ranked.longest, rule, steps)
    # Of each block: its step, by length, and its number among the blocks of that step.
    extra = np.arange(len(sizes) - steps)
    step_of = np.concatenate([np.arange(steps), steps - 1 - extra % steps])
    nth = np.concatenate([np.zeros(steps, np.int64), 1 + extra // steps])
    blocks = np.bincount(step_of, minlength=steps)  # of each step
    shuffled = permutation(key(rule.seed, "steps", window), steps)
    step_units = np.concatenate([[0], np.cumsum(blocks[shuffled])]) * rule.units
    first_unit = np.empty(steps, np.int64)  # of each step
    first_unit[shuffled] = step_units[:-1]
    block_of = np.repeat(np.arange(len(sizes)), sizes)  # of each rank
    within = np.arange(len(block_of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    step = step_of[block_of]
    # Units of a step are ordered by lane: ranks of one node take units of one lane.
    unit = first_unit[step] + within % rule.per_lane * blocks[step] + nth[block_of]
    lane_units = blocks[step] * rule.per_lane
    turn = within // rule.per_lane
    units = [unit[: len(own)] + lane * lane_units[: len(own)] for lane, own in enumerate(ranked.slots)]
    unit_starts = np.concatenate([[0], np.cumsum(np.bincount(np.concatenate(units), minlength=int(step_units[-1])))])
    slots = np.empty(int(unit_starts[-1]), np.int64)
    for own, their_units in zip(ranked.slots, units, strict=True):
        slots[unit_starts[their_units] + turn[: len(own)]] = own
    return DealtWindow(slots, unit_starts, step_units, ranked.slots, ranked.left_out)


def rank(slots: Ints, lengths: Ints, rule: Rule) -> Ranked:
    """Sort the slots of a window by length within each lane, longest first, and ties by a hash.

    Args:
        slots: Slots of the window.
        lengths: Length of the sample of each slot.
        rule: How to cut.

    Raises:
        ValueError: If lengths are too large to sort.
    """
    kept = slice(None) if rule.alone else np.flatnonzero(lengths <= rule.budget)
    left_out = slots[:0] if rule.alone else slots[lengths > rule.budget]
    own = slots[kept]
    lane = (own % rule.lanes).astype(np.uint64)
    own_lengths = lengths[kept]
    shorter = (int(own_lengths.max(initial=1)) - own_lengths).astype(np.uint64)
    order = _sorted_order(lane, shorter, words(key(rule.seed, "ties"), own), len(own))
    ends = np.cumsum(np.bincount(own % rule.lanes, minlength=rule.lanes))
    by_lane = tuple(np.split(own[order], ends[:-1]))
    by_rank = np.zeros((rule.lanes, max(map(len, by_lane))), np.int64)
    for row, sorted_lengths in zip(by_rank, np.split(own_lengths[order], ends[:-1]), strict=True):
        row[: len(sorted_lengths)] = sorted_lengths
    return Ranked(by_lane, by_rank[0] if rule.lanes == 1 else by_rank.max(axis=0), left_out)


def _sorted_order(lane: Words, shorter: Words, ties: Words, size: int) -> Ints:
    """Return the indices sorted by lane, then length, then hash.

    All three and the index are packed into one word and sorted as values, as in ``draws.permutations``.
    """
    index_bits = max(size - 1, 0).bit_length()
    length_bits = int(shorter.max(initial=0)).bit_length()
    tie_bits = 64 - index_bits - length_bits - int(lane.max(initial=0)).bit_length()
    if tie_bits < 0:
        raise ValueError(f"lengths of {length_bits} bits in a window of {size} samples are too large to sort")
    packed = lane << np.uint64(min(63, index_bits + length_bits + tie_bits))
    packed |= shorter << np.uint64(min(63, index_bits + tie_bits))
    if tie_bits:
        packed |= (ties >> np.uint64(64 - tie_bits)) << np.uint64(min(63, index_bits))
    packed |= np.arange(size, dtype=np.uint64)
    packed.sort()
    packed &= np.uint64((1 << index_bits) - 1)
    return packed.view(np.int64)


def count_steps(longest: Ints, rule: Rule) -> int:
    """Return the number of steps that a window needs."""
    return _count(longest[:: rule.per_lane].tolist(), rule.budget, len(longest))


def _count(longest: list[int], budget: int, most: int) -> int:
    """Return the number of steps that a window needs with a budget; a number above ``most`` if it needs more.

    Args:
        longest: Length of the longest of the samples that are dealt to all units in one turn.
        budget: Budget of a unit.
        most: Number of steps after which counting ends.
    """
    steps = 0
    at = 0
    end = len(longest)
    while at < end and steps <= most:
        at += budget // longest[at] or 1
        steps += 1
    return steps


def _blocks(longest: list[int], rule: Rule, budget: int, ranks: int) -> list[int]:
    """Return the number of ranks of each step; see ``_count``."""
    sizes: list[int] = []
    at = 0
    while at < len(longest):
        turns = budget // longest[at] or 1
        sizes.append(min(turns * rule.per_lane, ranks - at * rule.per_lane))
        at += turns
    return sizes


def _block_sizes(longest: Ints, rule: Rule, steps: int) -> Ints:
    """Return the number of ranks of each block: one block per step, and additional ones that the budget needs.

    The smallest budget that needs at most ``steps`` steps is used, so that steps are as equal as possible.
    """
    turns = longest[:: rule.per_lane].tolist()  # numbers of a list are read much faster than those of an array
    low, high = 0, rule.budget  # low: needs more steps
    if _count(turns, high, steps) <= steps:
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _count(turns, middle, steps) <= steps else (middle, high)
    sizes = _blocks(turns, rule, high, len(longest))
    while len(sizes) < steps and max(sizes, default=0) > rule.per_lane:  # one budget less needs too many: halve some
        at = sizes.index(max(sizes))
        half = -(-sizes[at] // (2 * rule.per_lane)) * rule.per_lane
        sizes[at : at + 1] = [half, sizes[at] - half]
    _fill_last(sizes, rule.per_lane)
    sizes += [0] * (steps - len(sizes))
    return np.array(sizes, dtype=np.int64)


def _fill_last(sizes: list[int], least: int) -> None:
    """Enlarge the last block, so that no unit of it is without a sample, if a block before it has samples to spare.

    Blocks between the two have one sample per unit, as the last block then has: these fit, whatever their lengths are.
    """
    givers = [at for at, size in enumerate(sizes[:-1]) if size > least]
    if givers and sizes[-1] < least:
        sizes[givers[-1]] -= least - sizes[-1]
        sizes[-1] = least
