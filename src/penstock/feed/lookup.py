"""Plans the steps of a walk, each of them once. Reads no data.

Several batches are planned at once, which takes hardly longer than planning one.
"""

import logging
import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from penstock.feed.catalog import Catalog, PartShare, Totals
from penstock.feed.measuredcatalog import MeasuredCatalog
from penstock.feed.steps import Steps
from penstock.plan.bylength import WindowCut
from penstock.plan.draws import Ints
from penstock.plan.order import Planned
from penstock.plan.plan import Plan
from penstock.plan.windowtimeline import AnyTimeline, WindowTimeline

log = logging.getLogger(__name__)

_SAMPLES_AT_ONCE = 128
_NO_SLOT = -1
_NEAR_STEPS = 1_024  # threads may request steps of a walk out of order by as many


class Looked(NamedTuple):
    """The plan of one rank's batch.

    Attributes:
        step: Step of the batch.
        slots: Slots of the run, in the order of the batch.
        shares: Samples by part, with their indices in the batch. All other indices are padding.
        totals: Planned sums over all ranks.
        unit_rows: Number of rows of each unit, for batches by length; None if the batch is not divided.
    """

    step: int
    slots: Ints
    shares: list[PartShare]
    totals: Totals
    unit_rows: list[int] | None = None

    def after(self, rows: int) -> "Looked":
        """Return the plan without the first rows of the batch."""
        return self._between(rows, len(self.slots)) if rows else self

    def units(self) -> "list[Looked]":
        """Return the plan of each unit. One without a sample is a row of padding, so that a model can take it."""
        ends = np.cumsum([0, *(self.unit_rows or [len(self.slots)])]).tolist()
        units = [self._between(first, after) for first, after in pairwise(ends)]
        return [unit if len(unit.slots) else unit._replace(slots=np.array([_NO_SLOT])) for unit in units]

    @property
    def is_padding(self) -> bool:
        """Whether this is a unit without a sample."""
        return len(self.slots) == 1 and bool(self.slots[0] == _NO_SLOT)

    def _between(self, first: int, after: int) -> "Looked":
        """Return the plan of some rows."""
        inside = [(share, slice(*np.searchsorted(share.at, (first, after)).tolist())) for share in self.shares]
        shares = [_some(share, here, first) for share, here in inside if here.stop > here.start]
        return Looked(self.step, self.slots[first:after], shares, self.totals)


class Lookup:
    """Plans the steps of a walk. Any number of threads may call it, roughly in the order of the steps.

    Args:
        plan: Plan of the run.
        catalog: Parts of the run.
        rank: Rank of the batches.
        world: Number of ranks.
        timeline: Samples of each step.
        steps: Steps of the walk.
    """

    def __init__(
        self, plan: Plan, catalog: Catalog, rank: int, world: int, timeline: AnyTimeline, steps: Steps
    ) -> None:
        self._plan = plan
        self._catalog = catalog
        self._whose = (rank, world, timeline)
        self._cut = plan.cut(timeline)
        self._by_length = isinstance(timeline, WindowTimeline)
        self._warned = False  # of samples that are left out
        self._stride = steps.stride
        ends = [end for end in (steps.stop, plan.steps(timeline)) if end is not None]
        self._stop = min(ends, default=None)
        self._next = steps.start  # the first step that is not planned yet
        self._known: dict[int, Looked] = {}
        self._lock = threading.Lock()

    def at(self, step: int) -> Looked:
        """Return the plan of a step. It is kept until ``done``.

        Raises:
            IndexError: If the run ends before this step.
        """
        with self._lock:
            if step not in self._known:
                if not self._is_ahead(step):
                    return self._look_up([step])[0]  # requested again or out of turn: plan this step alone
                self._extend(
                    step + self._stride * max(1, _SAMPLES_AT_ONCE // max(1, self._plan.rows(step, *self._whose)))
                )
            return self._known[step]

    def _is_ahead(self, step: int) -> bool:
        """Return whether a step is one of the next steps of the walk."""
        near = self._next <= step < self._next + _NEAR_STEPS * self._stride
        return near and not (step - self._next) % self._stride and (self._stop is None or step < self._stop)

    def upto(self, first: int, stop: int) -> list[Looked]:
        """Return the plans of the walk's steps from ``first`` to ``stop`` (exclusive)."""
        with self._lock:
            self._extend(stop)
            return [looked for step, looked in self._known.items() if first <= step < stop]

    def stand_in(self, slot: int, attempt: int) -> Planned | None:
        """Return the item that replaces a bad item; see ``Order.stand_in``."""
        return self._cut.stand_in(slot, attempt)

    def residents(self, step: int, slots: Ints) -> list[tuple[int, int]]:
        """Return (source, group) of every group to keep while a step is made; see ``Cut.residents``."""
        return self._cut.residents(step, slots)

    def done(self, step: int) -> None:
        """Forget a step that will not be requested again."""
        with self._lock:
            self._known.pop(step, None)

    def _extend(self, stop: int) -> None:
        """Plan up to ``stop`` (exclusive) or the end of the walk."""
        steps = range(self._next, stop if self._stop is None else min(stop, self._stop), self._stride)
        if steps:
            self._known |= {looked.step: looked for looked in self._look_up(steps)}
            self._next = steps[-1] + self._stride

    def _warn_of_left_out(self, step: int) -> None:
        """Warn once, on rank 0, of samples that are longer than the budget."""
        if self._warned or not isinstance(self._cut, WindowCut) or self._whose[0]:
            return
        opened = self._cut.opened(step)
        if len(opened.dealt.left_out):
            self._warned = True
            log.warning(
                "batch: %d samples of the window of step %d are longer than the budget and left out, such as %s; "
                "`too_long: alone` gives each a unit for itself",
                *(len(opened.dealt.left_out), step),
                self._catalog.item_names(opened.items(opened.dealt.left_out[:1]))[0],
            )

    def _totals(self, steps: Sequence[int]) -> list[Totals]:
        """Return the planned sums over all ranks for each step."""
        if not self._catalog.counted and not self._by_length:
            return [{} for _ in steps]
        all_ranks = (0, 1, self._whose[2])
        ends = np.cumsum([self._plan.rows(step, *all_ranks) for step in steps])
        planned = self._plan.batches(steps, *all_ranks)
        found = self._catalog.totals(planned, ends)
        if self._by_length:
            assert isinstance(self._catalog, MeasuredCatalog)
            measured = self._catalog.length_totals(planned, ends)
            found = [_joined(*each) for each in zip(measured, found, strict=True)]
        return found

    def _look_up(self, steps: Sequence[int]) -> list[Looked]:
        planned = self._plan.batches(steps, *self._whose)
        self._warn_of_left_out(steps[0])
        shares = self._catalog.shares(planned)
        ends = np.cumsum([self._plan.rows(step, *self._whose) for step in steps])
        totals = self._totals(steps)
        cuts = [np.searchsorted(share.at, ends).tolist() for share in shares]
        found = []
        first = 0
        for number, (step, end) in enumerate(zip(steps, ends.tolist(), strict=True)):
            inside = [slice(cut[number - 1] if number else 0, cut[number]) for cut in cuts]
            own = [
                _some(share, here, first) for share, here in zip(shares, inside, strict=True) if here.stop > here.start
            ]
            units = self._cut.unit_rows(step, *self._whose[:2]) if self._by_length else None
            found.append(Looked(step, planned.slot[first:end], own, totals[number], units))
            first = end
        return found


def _joined(one: Totals, other: Totals) -> Totals:
    return {number: {**one.get(number, {}), **other.get(number, {})} for number in one | other}


def _some(share: PartShare, here: slice, first: int) -> PartShare:
    return PartShare(share.part, share.at[here] - first, share.uses.at(here), share.items[here])
