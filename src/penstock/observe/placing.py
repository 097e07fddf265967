"""Which sample each reported loss belongs to, by the plan and the bad samples of a ledger. Reads no data."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from itertools import groupby
from typing import NamedTuple

import numpy as np

from penstock.feed import Feed
from penstock.observe.lines import BadEntry, LedgerLine, LossLine, line_timeline, loss_values
from penstock.observe.losses import Floats
from penstock.plan.draws import Ints
from penstock.plan.order import Planned
from penstock.plan.windowtimeline import AnyTimeline


class LossReport(NamedTuple):
    """One report of a line.

    Attributes:
        step: Step of the batch.
        rows: Rows of the batch; None for all.
        losses: Losses, one or several.
    """

    step: int
    rows: list[int] | None
    losses: Floats


def reports(line: LossLine, end: int) -> Iterator[LossReport]:
    """Yield the reports of a line before a step."""
    ends = np.cumsum(line["counts"])
    parts = np.split(loss_values(line), ends[:-1])
    rows = line.get("rows") or [None] * len(parts)
    for step, own, losses in zip(line["steps"], rows, parts, strict=True):
        if step < end:
            yield LossReport(step, own, losses)


class SampleLosses(NamedTuple):
    """Losses of the samples of a step, as parallel arrays.

    Attributes:
        step: Step of the batch.
        slot: Place in the rank's batch.
        row: Row of the item, or of the pack.
        source: Number of the source.
        group: Number of the group in the source.
        loss: Loss.
        member: Id of each member of packs, as ``group:id``; empty if the samples are not packed.
    """

    step: int
    slot: Ints
    row: Ints
    source: Ints
    group: Ints
    loss: Floats
    member: list[str]


class Placing:
    """Finds the samples of losses. Give it the lines of a ledger in their order: bad samples come before their losses.

    Args:
        feed: Feed of the run.

    Attributes:
        unplaced: Number of losses that are neither one per row, nor one per member of packs, nor a scalar.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._bad: dict[tuple[int, int, int], list[BadEntry]] = {}
        self.unplaced = 0

    def take_bad(self, line: LedgerLine) -> None:
        """Remember the bad samples of a line."""
        for step, found in groupby(line["bad"], key=lambda bad: bad["step"]):
            self._bad[line["world"], line["rank"], step] = list(found)

    def placed(self, line: LossLine, end: int) -> Iterator[SampleLosses]:
        """Yield the losses of samples before a step. Scalars of several samples are left out."""
        found = list(reports(line, end))
        steps = sorted({report.step for report in found})
        if not steps:
            return
        timeline = line_timeline(line)
        rank = line["rank"]
        world = line["world"]
        try:
            sizes = [self._feed.plan.rows(step, rank, world, timeline) for step in steps]
            planned = self._feed.plan.batches(steps, rank, world, timeline)
        except (ValueError, IndexError):  # a damaged line
            self.unplaced += sum(len(report.losses) for report in found)
            return
        starts = dict(zip(steps, np.cumsum([0, *sizes]).tolist(), strict=False))
        ends = {step: starts[step] + size for step, size in zip(steps, sizes, strict=True)}
        self._substitute(planned, timeline, (world, rank), starts, ends)
        rows = np.array(self._feed.catalog.rows(planned))
        units = _Units(self._feed, line)
        for report in found:
            at = np.arange(starts[report.step], ends[report.step])
            chosen = units.rows(report, len(at))
            if max(chosen, default=0) < len(at):
                at = at[chosen]
            real = rows[at] >= 0
            losses = report.losses
            members: list[str] = []
            if len(losses) == len(at):
                losses = losses[real]
                at = at[real]
            elif len(losses) == 1:
                continue
            else:
                at, members = self._members(planned, at[real], starts[report.step], (world, rank, report.step))
            if len(at) != len(losses):
                self.unplaced += len(losses)
                continue
            slot = at - starts[report.step]
            yield SampleLosses(report.step, slot, rows[at], planned.source[at], planned.group[at], losses, members)

    def _substitute(
        self,
        planned: Planned,
        timeline: AnyTimeline,
        rank: tuple[int, int],
        starts: Mapping[int, int],
        ends: Mapping[int, int],
    ) -> None:
        """Write the final substitutes of bad samples into their places."""
        for step, start in starts.items():
            bad = self._bad.get((*rank, step), ())
            tried = Counter(each["slot"] for each in bad if each["outcome"] in ("replaced", "empty"))
            for slot, attempts in tried.items():
                at = start + slot
                if at >= ends[step] or planned.item[at] < 0:
                    continue  # not a sample of this run; ``usage --check`` reports it
                instead = self._feed.plan.cut(timeline).stand_in(int(planned.slot[at]), attempts)
                for name in ("source", "epoch", "repeat", "group", "item"):
                    getattr(planned, name)[at] = -1 if instead is None else getattr(instead, name)[0]

    def _members(self, planned: Planned, at: Ints, start: int, step: tuple[int, int, int]) -> tuple[Ints, list[str]]:
        """Return the place of the pack of each member, and the name of each, without members that were bad."""
        lost = {(each["slot"], each.get("member")) for each in self._bad.get(step, ())}
        packs = Planned(*(column[at] for column in astuple(planned)))
        places: list[int] = []
        names: list[str] = []
        for share in self._feed.catalog.shares(packs):
            for number, item in zip(share.at.tolist(), share.items, strict=True):
                group = self._feed.catalog.group_name(int(packs.source[number]), int(packs.group[number]))
                ids = item.id if isinstance(item.id, list) else [item.id]
                kept = [id for place, id in enumerate(ids) if (int(at[number]) - start, place) not in lost]
                places += [int(at[number])] * len(kept)
                names += [f"{group}:{id}" for id in kept]
        order = np.argsort(places, kind="stable")  # of packs of several parts
        return np.array(places, dtype=np.int64)[order], [names[each] for each in order.tolist()]


class _Units:
    """Rows of reports. In batches by length, a step has several units, which are reported one after the other."""

    def __init__(self, feed: Feed, line: LossLine) -> None:
        self._cut = feed.plan.cut(line_timeline(line))
        self._rank = (line["rank"], line["world"])
        self._reported: Counter[int] = Counter()  # units by step

    def rows(self, report: LossReport, size: int) -> Sequence[int]:
        """Return the rows of a report among all rows of its rank and step, of which there are ``size``."""
        if report.rows is not None:
            return report.rows
        ends = np.cumsum(self._cut.unit_rows(report.step, *self._rank)).tolist()
        number = self._reported[report.step]
        if len(report.losses) == size or number == len(ends):
            return range(size)
        self._reported[report.step] += 1
        return range(ends[number - 1] if number else 0, ends[number])
