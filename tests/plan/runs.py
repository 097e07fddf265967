"""Random runs for the tests of endless orders and of plans: sources of all kinds, mixtures that change, lanes."""

from dataclasses import dataclass
from math import gcd

import numpy as np
from hypothesis import strategies as st

from penstock.plan.draws import Ints
from penstock.plan.endless import Endless
from penstock.plan.mixture import Mixture
from penstock.plan.order import Planned, Source

NAMES = ("assamese", "bengali", "gujarati", "hindi")


@dataclass(frozen=True)
class Run:
    """What an endless order is made from."""

    sources: tuple[Source, ...]
    changes: tuple[tuple[int, tuple[int, ...]], ...]
    lanes: int
    residents: int
    seed: int

    def order(self) -> Endless:
        """Made anew, so that nothing is remembered from earlier questions."""
        return Endless(self.sources, Mixture(self.changes, self.lanes), residents=self.residents, seed=self.seed)

    def epoch_items(self, source: int) -> int:
        total, limit = int(self.sources[source].known_sizes().sum()), self.sources[source].limit
        return total if limit is None else min(total, limit)

    def slots_for_epochs(self, epochs: int) -> int:
        """Slots after the last change in which every source that it draws has gone through so many epochs."""
        start, counts = self.changes[-1]
        period = sum(counts)
        slack = 2 * self.lanes  # a lane's part of the items, and of their limit, may be one more than an even one
        longest = max((self.epoch_items(i) + slack) * self.sources[i].repeat for i, count in enumerate(counts) if count)
        turns = -(-(epochs * longest) // min(count for count in counts if count))
        return start + turns * period + self.lanes * period


def small_sizes() -> st.SearchStrategy[Ints]:
    return st.lists(st.integers(1, 30), min_size=1, max_size=15).map(np.array)


@st.composite
def split_sizes(draw: st.DrawFn, lanes: int, residents: int) -> Ints:
    """Groups and items enough to be dealt to lanes."""
    groups = draw(st.integers(max(2, lanes * residents), lanes * residents + 12))
    jitter = draw(st.lists(st.integers(0, 60), min_size=groups, max_size=groups))
    return np.array(jitter) + -(-1000 * lanes // groups)


@st.composite
def runs(draw: st.DrawFn, *, segments: int = 3, all_drawn: bool = False, split: bool | None = None) -> Run:
    """Args: all_drawn leaves no weight at 0; split says whether every source is dealt to lanes, None for some."""
    lanes = draw(st.integers(2 if split else 1, 4))
    residents, number = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    sources = []
    for name in draw(st.permutations(NAMES))[:number]:
        dealt = draw(st.booleans()) if split is None else split
        sizes = draw(split_sizes(lanes, residents) if dealt else small_sizes())
        limits = st.integers(1000 * lanes, 1400 * lanes) if dealt else st.integers(1, 200)
        repeat = draw(st.sampled_from([1, 1, 2] if dealt else [1, 1, 2, 3]))
        sources.append(Source(name, sizes, draw(st.one_of(st.none(), limits)), repeat))
    later = draw(st.integers(0, segments - 1))
    gaps = draw(st.lists(st.integers(1, 300), min_size=later, max_size=later))
    starts = np.cumsum([0, *gaps]).tolist()
    counts = st.tuples(*[st.integers(1 if all_drawn else 0, 3)] * number)
    changes = tuple((start, _coprime(draw(counts), lanes)) for start in starts)
    return Run(tuple(sources), changes, lanes, residents, draw(st.integers(0, 2**63)))


def _coprime(counts: tuple[int, ...], lanes: int) -> tuple[int, ...]:
    """The first count raised until the period has no factor in common with the lanes."""
    first, *others = counts
    while first + sum(others) == 0 or gcd(first + sum(others), lanes) != 1:
        first += 1
    return first, *others


def rows(planned: Planned) -> list[tuple[int, ...]]:
    """(slot, source, epoch, repeat, group, item) of each slot."""
    columns = (planned.slot, planned.source, planned.epoch, planned.repeat, planned.group, planned.item)
    return list(zip(*(column.tolist() for column in columns), strict=True))
