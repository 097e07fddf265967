"""The lengths of items, for batches by length: how each part counts them, and their sums. Knows no file format."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from penstock.feed.catalog import Catalog, PartShare, Totals
from penstock.pipelines.pipeline import Part
from penstock.plan.draws import Ints, Words
from penstock.plan.order import Planned
from penstock.readers.reader import optional_methods

KNOWN_LENGTHS = {"seconds": 1_000, "tokens": 1}
"""Number of counts per unit of a known length."""


class Measure(NamedTuple):
    """How the lengths of a part's items are counted, for batches by length.

    Attributes:
        unit: Unit of lengths: ``seconds`` or ``tokens``.
        kind: Number of the budget that they count for.
        plan: Function from known lengths and draws to planned lengths; see ``PaddedRecipe.planned_lengths``.
        key: Options that change planned lengths.
        quadratic_after: Planned length L from which its square counts more than L does; None if it does not count.
    """

    unit: str
    kind: int
    plan: Callable[[Ints, Words], Ints]
    key: str
    quadratic_after: int | None = None

    def cost(self, lengths: Ints) -> Ints:
        """Return what planned lengths count of a budget."""
        return lengths if self.quadratic_after is None else lengths - (-lengths * lengths // self.quadratic_after)


class MeasuredCatalog(Catalog):
    """A catalog that knows the length of every item.

    Args:
        parts: Parts of the run.
        seed: Seed of the run.
        measures: How to count lengths, by number of the part.

    Attributes:
        measures: How to count lengths, by number of the part.
    """

    def __init__(self, parts: Sequence[Part], seed: int, measures: Mapping[int, Measure]) -> None:
        super().__init__(parts, seed)
        self.measures = measures

    def lengths(self, planned: Planned) -> tuple[Ints, Ints]:
        """Return what the length of each item counts, and the number of its budget; see ``plan.bylength.Lengths``."""
        lengths, kinds = self.planned_lengths(planned)
        measure = next(iter(self.measures.values()))  # all have the same square
        return measure.cost(lengths), kinds

    def planned_lengths(self, planned: Planned) -> tuple[Ints, Ints]:
        """Return the planned length of each item, at least 1, and the number of its budget."""
        lengths = np.zeros(len(planned.item), dtype=np.int64)
        kinds = np.zeros(len(planned.item), dtype=np.int64)
        for number, at, known, draws in self._measured(planned):
            measure = self.measures[number]
            lengths[at] = np.maximum(1, measure.plan(known, draws))
            kinds[at] = measure.kind
        return lengths, kinds

    def length_digest(self, source: int) -> str:
        """Return a digest of the lengths of a source; their sum if its manifest has none."""
        part, number = self._of_source(source)
        if part.manifest.length_digests:
            return part.manifest.length_digests[number]
        unit = "hours" if self._measure_of(source).unit == "seconds" else "tokens"
        return f"{unit} {self.amounts.get(unit, [0] * len(self.sources))[source]}"

    def length_key(self, source: int) -> str:
        """Return the options that change the planned lengths of a source, as text."""
        return self._measure_of(source).key

    def _measure_of(self, source: int) -> Measure:
        return self.measures[int(self._part_of[source])]

    def _measured(self, planned: Planned) -> Iterator[tuple[int, Ints, Ints, Words]]:
        """Yield each part of some items: its number, indices of its items, their known lengths and their draws."""
        part = self._parts_in(planned)
        for number in self.measures:
            at = np.flatnonzero(part == number)
            uses = self._uses(number, planned, at)
            yield number, at, self._known_lengths(number, uses.row), uses.draw

    def _known_lengths(self, number: int, rows: Ints) -> Ints:
        known = optional_methods(self.reader(number)).lengths(rows, self.measures[number].unit)
        assert known is not None  # checked when the run was opened
        return known

    def length_totals(self, planned: Planned, ends: Ints) -> list[Totals]:
        """Sum up samples and lengths, for each of several global batches; see ``totals``."""
        found: list[Totals] = [{} for _ in ends]
        for number, at, known, _ in self._measured(planned):
            unit = self.measures[number].unit
            places = np.concatenate([[0], np.searchsorted(at, ends)])
            sums = np.diff(np.concatenate([[0], np.cumsum(known)])[places]) / KNOWN_LENGTHS[unit]
            for each, samples, total in zip(found, np.diff(places).tolist(), sums.tolist(), strict=True):
                each[number] = {"samples": samples, unit: total if unit == "seconds" else int(total)}
        return found

    def _share(self, number: int, planned: Planned, at: Ints) -> PartShare:
        share = super()._share(number, planned, at)
        lengths = self.measures[number].plan(self._known_lengths(number, share.uses.row), share.uses.draw)
        items = [item._replace(length=length) for item, length in zip(share.items, lengths.tolist(), strict=True)]
        return share._replace(items=items)
