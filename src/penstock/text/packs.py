"""Packs: samples of known lengths dealt to rows of a fixed length, with little padding. Integers only; reads nothing.

Best fit, decreasing: the longest sample first, each into the pack with the least space that is enough. Lengths count
in units of up to 8 tokens. Which lengths lie together is then the same in every epoch, and so is the number of packs;
the samples of one length change places with each other. Larger units let more samples change places, and cost more
padding: 0.8% for units of 8 tokens where samples have 475 on average. Short samples often have one length as it is.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.plan.draws import Ints, inverse, words

VERSION = 2
"""The version of how samples are dealt to packs. The order of a run depends on it: fingerprints have it."""

UNITS_TOKENS = (8, 4, 2, 1)
MOST_PADDING = 0.008  # of all tokens, by which lengths are rounded up on average
SHORT_TOKENS = 256  # on average: samples of fewer tokens are not rounded up


@dataclass(frozen=True, slots=True, eq=False)
class Packs:
    """The samples of each pack.

    Attributes:
        samples: Sample numbers, pack by pack.
        starts: Start of each pack in ``samples``, and the end.
    """

    samples: Ints
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, pack: int) -> Ints:
        """Return the samples of one pack."""
        if not 0 <= pack < len(self):
            raise IndexError(f"pack {pack} of {len(self)}")
        return self.samples[self.starts[pack] : self.starts[pack + 1]]

    def of(self, samples: Ints) -> Ints:
        """Return the pack of each of the samples."""
        return np.searchsorted(self.starts, inverse(self.samples)[samples], side="right") - 1


def deal(lengths: Ints, capacity: int, key: int) -> Packs:
    """Return the packs of a group of samples for one epoch.

    Args:
        lengths: Tokens per sample. A group of a few thousand samples gives little padding.
        capacity: Tokens per pack.
        key: Key of the group and the epoch, 64 bits. Equal arguments give equal packs.

    Raises:
        ValueError: If a sample has no tokens, or more than a pack holds: cut or drop it before.
    """
    if len(lengths) and not (lengths.min() > 0 and lengths.max() <= capacity):
        wrong = int(lengths.max() if lengths.max() > capacity else lengths.min())
        raise ValueError(f"a sample of {wrong} tokens; packs hold samples of 1 to {capacity}")
    unit = unit_tokens(lengths)
    room = max(1, capacity // unit)
    units = np.minimum(-(-lengths // unit), room)  # a sample that fills more than the room is alone
    order = np.lexsort((words(key, np.arange(len(lengths))), -units))
    pack = np.array(_best_fit(units[order].tolist(), room), dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(np.bincount(pack))]) if len(pack) else np.zeros(1, dtype=np.int64)
    return Packs(order[np.argsort(pack, kind="stable")], starts)


def unit_tokens(lengths: Ints) -> int:
    """Return the unit of the lengths of a group: the largest that costs little padding."""
    mean = float(lengths.mean()) if len(lengths) else 1.0
    if mean < SHORT_TOKENS:
        return 1
    return next(unit for unit in UNITS_TOKENS if (unit - 1) / 2 <= MOST_PADDING * mean)


def _best_fit(sizes: Iterable[int], room: int) -> list[int]:
    """Return the pack of each sample, for sizes that decrease."""
    by_space: dict[int, list[int]] = {}
    spaces: list[int] = []  # of packs that are not full, sorted, each once
    count = 0
    chosen = []
    for size in sizes:
        tightest = bisect_left(spaces, size)
        if tightest < len(spaces):
            space = spaces[tightest]
            pack = by_space[space].pop()
            if not by_space[space]:
                del spaces[tightest]
        else:
            space = room
            pack = count
            count += 1
        chosen.append(pack)
        left = space - size
        if left:
            packs = by_space.setdefault(left, [])
            if not packs:
                insort(spaces, left)
            packs.append(pack)
    return chosen
