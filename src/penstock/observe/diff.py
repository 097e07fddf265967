"""Compares two runs step by step: by their plans, or by ledgers that have ids. Reads no data."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from penstock.feed import Feed
from penstock.observe.lineage import lineage
from penstock.observe.lines import line_timeline, read_lines
from penstock.plan.draws import Ints
from penstock.plan.order import Planned
from penstock.plan.windowtimeline import AnyTimeline

_STEPS_AT_ONCE = 2_048
_PADDING = -1
ENDLESS = 1 << 62  # end of the steps of an endless run


class Labels:
    """Numbers for items, the same for both runs, and back to names."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {"": _PADDING}
        self._names: list[str] = []

    def number(self, name: str) -> int:
        """Return the number of a name; -1 for the empty name of padding."""
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self._names)
            self._names.append(name)
        return found

    def names(self, numbers: Ints) -> list[str]:
        """Return the names of numbers, which are not those of padding."""
        return [self._names[number] for number in numbers.tolist()]


class Compared(Protocol):
    """A run whose global batches are known.

    Attributes:
        steps: Steps that are known. Those of an endless run end at ``ENDLESS``.
    """

    steps: range

    def batches(self, steps: range) -> tuple[Ints, Ints]:
        """Return the size of each global batch, and the numbers of all items in order, concatenated."""
        ...

    def names(self, numbers: Ints) -> list[str]:
        """Return ``group:id`` of numbers, which are not those of padding."""
        ...


class NamedPlan:
    """A planned run, whose items are known by their names.

    Args:
        feed: Feed of the run.
        labels: Numbers of names.
        timeline: Samples of each step; by default those of the feed.
    """

    def __init__(self, feed: Feed, labels: Labels, timeline: AnyTimeline | None = None) -> None:
        self._timeline = timeline or feed.timeline(feed.world)
        self.steps = _known_steps(feed, self._timeline)
        self._feed = feed
        self._labels = labels
        self.names = labels.names

    def batches(self, steps: range) -> tuple[Ints, Ints]:
        planned, sizes = _planned(self._feed, steps, self._timeline)
        names = self._feed.catalog.item_names(planned)
        return sizes, np.array([self._labels.number(name) for name in names], dtype=np.int64)


class NumberedPlan:
    """A planned run over the same data as the other one: items are known by source, group and place.

    Args:
        feed: Feed of the run.
        sources: Names of the sources of both runs; their places are the numbers of sources.
        shape: Number of groups and of items per group, more than either run has.
    """

    def __init__(self, feed: Feed, sources: Sequence[str], shape: tuple[int, int]) -> None:
        self._timeline = feed.timeline(feed.world)
        self.steps = _known_steps(feed, self._timeline)
        self._feed = feed
        self._shape = shape
        self._sources = np.array([sources.index(name) for name in feed.catalog.sources], dtype=np.int64)

    def batches(self, steps: range) -> tuple[Ints, Ints]:
        planned, sizes = _planned(self._feed, steps, self._timeline)
        groups, items = self._shape
        numbers = (self._sources[planned.source] * groups + planned.group) * items + planned.item
        return sizes, np.where(planned.item < 0, _PADDING, numbers)

    def names(self, numbers: Ints) -> list[str]:
        groups, items = self._shape
        rest, item = np.divmod(numbers, items)
        shared, group = np.divmod(rest, groups)
        sources = np.full(self._sources.max() + 1, -1)
        sources[self._sources] = np.arange(len(self._sources))
        zeros = np.zeros_like(numbers)
        return self._feed.catalog.item_names(Planned(zeros, sources[shared], zeros, zeros, group, item))


class LedgerRun:
    """A run by its ledger, which must have ids. Steps that a resumed run reported again count once.

    Args:
        log: Path of the ledger.
        labels: Numbers of names.

    Attributes:
        timeline: Samples of each step.

    Raises:
        ValueError: If the file is not a ledger, has no ids, or has a gap.
    """

    def __init__(self, log: Path, labels: Labels) -> None:
        found = lineage(line for line in read_lines(log) if line is not None)
        if not found.kept:
            raise ValueError(f"{log}: no line of a usage ledger found")
        if any("ids" not in line for line, _ in found.kept):
            raise ValueError(
                f"{log}: lines without ids cannot be compared; log them with `usage: {{ids: true}}`, or compare the "
                "ledger with its plan: penstock usage LOG --check CONFIG"
            )
        self._used: dict[int, dict[int, list[str]]] = {}
        worlds: dict[int, int] = {}
        for line, end in found.kept:
            for step, names in zip(range(line["steps"][0], end), line["ids"], strict=False):
                self._used.setdefault(step, {})[line["rank"]] = names
                worlds[step] = line["world"]
        complete = [step for step in sorted(worlds) if len(self._used[step]) == worlds[step]]
        self.steps = range(complete[0], complete[-1] + 1) if complete else range(0)
        if len(complete) != len(self.steps):
            gap = next(step for step in self.steps if len(self._used.get(step, ())) != worlds.get(step))
            raise ValueError(f"{log}: the lines of step {gap} are missing or incomplete; compare the configs")
        self.timeline = line_timeline(max((line for line, _ in found.kept), key=lambda line: line["steps"][1]))
        self._labels = labels
        self.names = labels.names

    def batches(self, steps: range) -> tuple[Ints, Ints]:
        sizes = []
        numbers: list[int] = []
        for step in steps:
            by_rank = self._used[step]
            names = [name for rank in sorted(by_rank) for name in by_rank[rank]]
            sizes.append(len(names))
            numbers += map(self._labels.number, names)
        return np.array(sizes, dtype=np.int64), np.array(numbers, dtype=np.int64)


def _known_steps(feed: Feed, timeline: AnyTimeline) -> range:
    """Return all steps of a run; those of an endless run end at a large integer."""
    end = feed.plan.steps(timeline)
    return range(ENDLESS if end is None else end)


def _planned(feed: Feed, steps: range, timeline: AnyTimeline) -> tuple[Planned, Ints]:
    planned = feed.plan.batches(steps, 0, 1, timeline)
    return planned, np.array([feed.plan.rows(step, 0, 1, timeline) for step in steps], dtype=np.int64)


def plans(one: Feed, other: Feed) -> tuple[Compared, Compared]:
    """Return two planned runs that number items alike: by place where all data are the same, else by name.

    Packs without some of their samples have other names, but the same places.
    """
    sources = list(dict.fromkeys([*one.catalog.sources, *other.catalog.sources]))
    known = [dict(zip(feed.catalog.sources, feed.catalog.fingerprints, strict=True)) for feed in (one, other)]
    growing = any(feed.catalog.growing(number) for feed in (one, other) for number in range(len(feed.catalog.sources)))
    excluding = one.identity.exclude != other.identity.exclude and (one.leaves_out_members or other.leaves_out_members)
    if growing or excluding or any(known[0][name] != known[1][name] for name in known[0].keys() & known[1].keys()):
        labels = Labels()
        return NamedPlan(one, labels), NamedPlan(other, labels)
    sizes = [f.catalog.group_sizes(number) for f in (one, other) for number in range(len(f.catalog.sources))]
    shape = max(map(len, sizes)) + 1, max(int(each.max(initial=0)) for each in sizes) + 1
    return NumberedPlan(one, sources, shape), NumberedPlan(other, sources, shape)


class FirstDifference(NamedTuple):
    """The first place at which two runs differ.

    Attributes:
        step: Step of the batch.
        slot: Place in the global batch.
        items: ``group:id`` in each of the two runs; empty for nothing.
    """

    step: int
    slot: int
    items: tuple[str, str]


@dataclass
class Difference:
    """The result of comparing two runs.

    Attributes:
        steps: Steps that were compared.
        equal: Number of steps whose global batches are equal.
        reordered: Number of steps with the same samples in another order.
        first: First difference; None if all steps are equal.
        common: Number of items that both runs use in these steps.
        only: Names of items that only one of the runs uses, for each of them.
    """

    steps: range
    equal: int = 0
    reordered: int = 0
    first: FirstDifference | None = None
    common: int = 0
    only: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))


class _UsedItems:
    """The items that a run uses. Those of new steps are merged once they are as many as those before."""

    def __init__(self) -> None:
        self._known = np.zeros(0, dtype=np.int64)
        self._new: list[Ints] = []
        self._count = 0

    def add(self, numbers: Ints) -> None:
        self._new.append(numbers)
        self._count += len(numbers)
        if self._count > len(self._known):
            self._merge()

    def _merge(self) -> None:
        self._known = np.unique(np.concatenate([self._known, *self._new]))
        self._new.clear()
        self._count = 0

    def numbers(self) -> Ints:
        """Return all items, sorted, without padding."""
        self._merge()
        return self._known[self._known >= 0]


def compare(one: Compared, other: Compared, steps: range) -> Iterator[Difference]:
    """Compare two runs, and yield the result so far after each of several blocks of steps.

    The last result also has the items that only one of the runs uses.

    Args:
        one: First run.
        other: Second run, whose numbers mean the same items.
        steps: Steps to compare, which both runs know.
    """
    found = Difference(range(steps.start, steps.start))
    seen = _UsedItems(), _UsedItems()
    for start in range(steps.start, steps.stop, _STEPS_AT_ONCE):
        block = range(start, min(start + _STEPS_AT_ONCE, steps.stop))
        sides = one.batches(block), other.batches(block)
        for known, (_, numbers) in zip(seen, sides, strict=True):
            known.add(numbers)
        _compare_block(found, block, sides, (one, other))
        found.steps = range(steps.start, block.stop)
        yield found
    used = [each.numbers() for each in seen]
    found.common = len(np.intersect1d(used[0], used[1]))
    found.only = (
        one.names(np.setdiff1d(used[0], used[1])),
        other.names(np.setdiff1d(used[1], used[0])),
    )
    yield found


def _compare_block(
    found: Difference, block: range, sides: tuple[tuple[Ints, Ints], tuple[Ints, Ints]], runs: tuple[Compared, Compared]
) -> None:
    (sizes, numbers), (other_sizes, others) = sides
    if np.array_equal(sizes, other_sizes) and np.ptp(sizes) == 0:
        ours, theirs = numbers.reshape(len(block), -1), others.reshape(len(block), -1)
        same = (ours == theirs).all(axis=1)
        reordered = (np.sort(ours, axis=1) == np.sort(theirs, axis=1)).all(axis=1) & ~same
        batches: Sequence[tuple[Ints, Ints]] = list(zip(ours, theirs, strict=True)) if found.first is None else []
    else:
        pairs = zip(
            np.split(numbers, np.cumsum(sizes)[:-1]), np.split(others, np.cumsum(other_sizes)[:-1]), strict=True
        )
        batches = list(pairs)
        same = np.array([np.array_equal(mine, his) for mine, his in batches])
        alike = np.array([np.array_equal(np.sort(mine), np.sort(his)) for mine, his in batches])
        reordered = alike & ~same
    found.equal += int(same.sum())
    found.reordered += int(reordered.sum())
    if found.first is None and not same.all():
        at = int(np.argmin(same))
        found.first = _first_difference(block[at], batches[at], runs)


def _first_difference(step: int, batch: tuple[Ints, Ints], runs: tuple[Compared, Compared]) -> FirstDifference:
    """Find the first place at which the batches of a step differ. A missing item counts as padding."""
    length = max(map(len, batch))
    mine, his = (np.pad(each, (0, length - len(each)), constant_values=_PADDING) for each in batch)
    slot = int(np.flatnonzero(mine != his)[0])
    sides = zip(runs, (mine[slot : slot + 1], his[slot : slot + 1]), strict=True)
    here, there = ("".join(run.names(number[number >= 0])) for run, number in sides)
    return FirstDifference(step, slot, (here, there))
