"""Finds the steps that used some items, by the plan and the bad samples of a ledger. Reads no data."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from penstock.feed import Feed
from penstock.feed.excluding import Located, Named
from penstock.observe.lines import LedgerLine, line_timeline
from penstock.observe.runlog import RunLog
from penstock.plan.cut import Cut
from penstock.plan.windowtimeline import AnyTimeline


class Reported(NamedTuple):
    """What a ledger says about bad samples.

    Attributes:
        timeline: Batch sizes of the run.
        end: Number of steps that the ledger reaches.
        replaced: Attempts to replace a sample, by world, rank, step and place in the rank's batch.
        gaps: Descriptions of steps that are in no line.
    """

    timeline: AnyTimeline
    end: int
    replaced: Mapping[tuple[int, int, int, int], int]
    gaps: list[str]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a run would have to forget.

    Attributes:
        steps: Steps that used one of the items, in order.
        uses: Number of uses.
        end: Number of steps that the ledger reaches.
        clean: Last step before which nothing was used or, where batches have planned sums, planned: checkpoints up to
            it are clean.
        sample: First sample of that step.
    """

    steps: list[int]
    uses: int
    end: int
    clean: int
    sample: int


def read_reported(log: RunLog) -> Reported:
    """Read which samples were replaced.

    Raises:
        ValueError: If no line says what was used.
    """
    newest: LedgerLine | None = None
    replaced: Counter[tuple[int, int, int, int]] = Counter()  # attempts, by world, rank, step and place in the batch
    for line in log:
        if line.used is None or not line.end:
            continue
        if newest is None or line.used["steps"][1] > newest["steps"][1]:
            newest = line.used
        who = (line.used["world"], line.used["rank"])
        left_out = [bad for bad in line.used["bad"] if bad["outcome"] in ("replaced", "empty")]
        replaced.update((*who, bad["step"], bad["slot"]) for bad in left_out if bad["step"] < line.end)
    if newest is None:
        raise ValueError("no line of the ledger says what was used")
    return Reported(line_timeline(newest), max(end for _, end in log.used.kept), replaced, log.used.gaps)


def trace(feed: Feed, named: Named, reported: Reported, progress: Callable[[int, int], None]) -> Forgotten:
    """Find every step that used some items, as planned or as a substitute.

    Args:
        feed: Feed of the run.
        named: Items, and samples of packs.
        reported: What the ledger says.
        progress: Function that is called with the number of items that were looked up, and of all.
    """
    timeline = reported.timeline
    end = reported.end
    after = timeline.end_slot(end - 1)
    targets = _Targets(feed, named)
    cut = feed.plan.cut(timeline)
    slots = targets.slots(cut, after, progress)
    planned_sums = feed.config.batch is not None or bool(feed.catalog.counted)
    counted: set[int] = set()  # slots of items that were bad, but are in sums such as ``global_seconds``
    for (world, rank, step, place), attempts in reported.replaced.items():
        planned = feed.plan.batch(step, rank, world, timeline).slot
        if place >= len(planned):
            continue  # not a sample of this run; ``usage --check`` reports it
        slot = int(planned[place])
        if slot in slots and planned_sums:
            counted.add(slot)
        slots.discard(slot)
        if targets.is_substitute(slot, attempts, timeline):
            slots.add(slot)
    held = ((slot, cut.step(slot)) for slot in slots)
    used = {slot: step for slot, step in held if step is not None and step < end}
    # What is excluded counts from a sample on: of batches by length, for all steps of its window.
    clean = min((timeline.first_step(slot) for slot in used.keys() | counted), default=end)
    return Forgotten(sorted(set(used.values())), len(used), end, clean, timeline.end_slot(clean - 1))


class _Targets:
    """Items to forget, as the plan has them.

    Args:
        feed: Feed of the run.
        named: Items, and samples of packs.
    """

    def __init__(self, feed: Feed, named: Named) -> None:
        self._feed = feed
        self._items = named.items
        self._members = named.members
        self._packs: dict[int, set[Located]] = {}

    def slots(self, cut: Cut, after: int, progress: Callable[[int, int], None]) -> set[int]:
        """Return the slots that hold one of the items, before a slot."""
        planned = sorted(self._planned(after))  # epoch by epoch: the order of an epoch is then made once
        found: set[int] = set()
        for done, (epoch, item) in enumerate(planned, 1):
            own = self._feed.plan.order.slots_of(*item, epoch)
            found.update(held for slot in own if slot < after for held in cut.held_in(slot))
            progress(done, len(planned))
        return found

    def _planned(self, after: int) -> Iterator[tuple[int, Located]]:
        """Yield epochs and items that may come in them."""
        for item in self._items:
            yield from ((epoch, item) for epoch in self._epochs(item[0], after))
        sources = {self._feed.catalog.first_source(part) for part, _ in self._members}
        for epoch in range(max((len(self._epochs(source, after)) for source in sources), default=0)):
            yield from ((epoch, item) for item in self._in_packs(epoch))

    def _in_packs(self, epoch: int) -> set[Located]:
        """Return the packs that hold one of the samples in an epoch."""
        if epoch not in self._packs:
            catalog = self._feed.catalog
            rows = [catalog.pack_of(part, member, epoch) for part, member in self._members]
            self._packs[epoch] = set(catalog.locate(rows))
        return self._packs[epoch]

    def _epochs(self, source: int, after: int) -> range:
        """Return the epochs of a source that may begin before a slot."""
        feed = self._feed
        if feed.config.passes is not None:
            return range(feed.config.passes)
        quotas = feed.plan.order.quotas(0, after)
        assert quotas is not None  # an endless run has them
        rounds = feed.config.rounds
        limit = feed.catalog.limits[source] if rounds is None else None
        items = int(feed.catalog.group_sizes(source).sum())
        per_epoch = min(items, limit or items) * (rounds.repeat if rounds else 1)
        slack = len(feed.identity.mixture) + 2 * feed.identity.lanes  # quotas are exact to one draw per mixture
        return range(math.ceil((float(quotas[source]) + slack) / per_epoch) + 1)

    def is_substitute(self, slot: int, attempts: int, timeline: AnyTimeline) -> bool:
        """Return whether the substitute of a bad sample is one of the items."""
        taken = self._feed.plan.cut(timeline).stand_in(slot, attempts)
        if taken is None:
            return False
        [item] = np.stack([taken.source, taken.group, taken.item], axis=1).tolist()
        return tuple(item) in self._items or tuple(item) in self._in_packs(int(taken.epoch[0]))
