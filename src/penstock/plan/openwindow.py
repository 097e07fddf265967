"""One window of batches by length with its items: the slots of its steps, and what replaces an item. Pure integers."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.plan.cutting import DealtWindow, Rule
from penstock.plan.draws import Ints
from penstock.plan.order import Planned
from penstock.plan.windowtimeline import SlotWindow


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """A window with its items.

    Attributes:
        window: Slots and steps.
        dealt: Slots of each step.
        planned: Items of all slots from ``window.start`` on.
        lengths: Length of each of these items, in parts of the common budget.
        kinds: Number of the budget of each of these items.
        rule: How it was cut.
        taken: Slot whose item each slot has, -1 for none; None if every slot has its own.
        barred: Whether the item of each slot may replace no other: it is excluded before the end of the window. None
            if no item is.
    """

    window: SlotWindow
    dealt: DealtWindow
    planned: Planned
    lengths: Ints
    kinds: Ints
    rule: Rule
    taken: Ints | None = None
    barred: npt.NDArray[np.bool_] | None = None

    def slots(self, step: int) -> Ints:
        """Return the slots of a step."""
        first, after = self.dealt.bounds(step - self.window.first)
        return self.dealt.slots[first:after]

    def units(self, step: int) -> Ints:
        """Return the first place of each unit among the slots of a step, and their number."""
        number = step - self.window.first
        first, after = self.dealt.step_units[number : number + 2]
        starts = self.dealt.unit_starts[first : after + 1]
        columns: Ints = starts - starts[0]
        return columns

    def step(self, slot: int) -> int | None:
        """Return the step that has a slot; None if it is left out."""
        at = np.flatnonzero(self.dealt.slots == slot)
        if not len(at):
            return None
        unit = int(np.searchsorted(self.dealt.unit_starts, at[0], side="right")) - 1
        return self.window.first + int(np.searchsorted(self.dealt.step_units, unit, side="right")) - 1

    def items(self, slots: Ints) -> Planned:
        """Return the items of slots of this window."""
        at = slots - self.window.start
        if self.taken is None:
            return Planned(*(column[at] for column in columns_of(self.planned)))
        others = self.taken[at]
        where = np.maximum(others - self.window.start, 0)
        columns = (np.where(others < 0, -1, column[where]) for column in columns_of(self.planned)[1:])
        return Planned(slots, *columns)

    def slots_with(self, slot: int) -> list[int]:
        """Return the slots that have the item of a slot."""
        if self.taken is None:
            return [slot]
        found: list[int] = (np.flatnonzero(self.taken == slot) + self.window.start).tolist()
        return found

    def substitutes(self, slot: int, step: int) -> Ints:
        """Return the slots whose items may replace the item of a slot, best first: none makes its unit larger.

        These are the shorter ones of its lane and source, and those of its step that are not longer than its unit.
        """
        start = self.window.start
        ranked = self.dealt.ranked[slot % self.rule.lanes]
        shorter = ranked[int(np.flatnonzero(ranked == slot)[0]) + 1 :]
        alike = shorter[self.planned.source[shorter - start] == self.planned.source[slot - start]]
        own = self.slots(step)
        columns = self.units(step)
        unit = int(np.searchsorted(columns, np.flatnonzero(own == slot)[0], side="right")) - 1
        longest = self.lengths[own[columns[unit] : columns[unit + 1]] - start].max()
        fits = (self.lengths[own - start] <= longest) & (self.kinds[own - start] == self.kinds[slot - start])
        found = np.concatenate([alike, own[fits & (own != slot) & ~np.isin(own, alike)]])
        return found if self.barred is None else found[~self.barred[found - start]]

    def without(self, excluded: npt.NDArray[np.bool_], barred: npt.NDArray[np.bool_], *, refill: bool) -> "OpenWindow":
        """Return the window with other items in the places of excluded ones; see ``substitutes``.

        Args:
            excluded: Whether the item of each slot from ``window.start`` on is excluded.
            barred: Whether it is excluded before the end of the window.
            refill: Whether places are filled; otherwise they stay empty.
        """
        if not barred.any():
            return self
        start = self.window.start
        taken = np.where(excluded, -1, np.arange(start, self.window.stop))
        found = replace(self, taken=taken, barred=barred)
        for ranked in self.dealt.ranked if refill else ():
            at = ranked - start
            source = self.planned.source[at]
            for number in np.unique(source[excluded[at]]).tolist():
                own = np.flatnonzero(source == number)
                left = own[~barred[at[own]]]
                gone = own[excluded[at[own]]]
                following = np.searchsorted(left, gone)
                have = following < len(left)
                taken[at[gone[have]]] = ranked[left[following[have]]]
                for slot in ranked[gone[~have]].tolist():
                    step = self.step(slot)
                    others = found.substitutes(slot, step) if step is not None else ranked[:0]
                    taken[slot - start] = others[0] if len(others) else -1
        return found

    def used_before(self, step: int) -> int:
        """Return the number of slots of the window's steps before one."""
        return self.dealt.bounds(step - self.window.first)[0]


def columns_of(planned: Planned) -> tuple[Ints, ...]:
    """Return the columns, without copying them."""
    return planned.slot, planned.source, planned.epoch, planned.repeat, planned.group, planned.item
