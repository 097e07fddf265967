"""Makes batches of planned samples: reads records, has recipes fill rows, replaces bad samples. Knows no format."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from penstock.feed.batches import BadSample, Batch, MadeBatch
from penstock.feed.catalog import Catalog, PartShare
from penstock.feed.lookup import Looked
from penstock.plan.order import Planned
from penstock.readers.errors import ContentError
from penstock.recipes.recipe import Bad, Item, Recipe

log = logging.getLogger(__name__)

StandIn = Callable[[int, int], Planned | None]
"""Returns the item that replaces the bad item of a slot, by number of the attempt; see ``Order.stand_in``."""

_MAX_SUBSTITUTES = 8  # tried for a bad sample


class BatchMaker:
    """Makes batches. Any number of threads may use it.

    Args:
        catalog: Parts of the run.
        recipes: Recipes by name.
        replace: Whether to replace bad samples; otherwise they raise ``ContentError``.
        padded: Whether batches may contain padding, which ``valid`` then marks.
        costs: Whether batches contain the planned cost of each row, ``cost``.
    """

    def __init__(
        self, catalog: Catalog, recipes: Mapping[str, Recipe[Any]], *, replace: bool, padded: bool, costs: bool
    ) -> None:
        self._catalog = catalog
        self._recipes = recipes
        self._parts = catalog.recipes()
        self._replace = replace
        self._padded = padded
        self._costs = costs
        self._warned_of_empty = False

    def make(self, looked: Looked, stand_in: StandIn) -> MadeBatch:
        """Make the batch of a planned step."""
        made = self._made(looked, stand_in)
        if not self._warned_of_empty and all(map(_has_no_sample, made.facts.values())):
            self._warned_of_empty = True
            by_length = any("global_samples" in facts for facts in made.facts.values())
            log.warning(
                "step %d: the batch of this rank has no sample: the mean of its losses is NaN; "
                "divide their sum by a number over all ranks, such as %s",
                looked.step,
                "global_samples" if by_length else "global_label_tokens",
            )
        return made

    def _made(self, looked: Looked, stand_in: StandIn) -> MadeBatch:
        if len(self._recipes) == 1:
            [name] = self._recipes
            fields, facts = self._make(self._recipes[name], looked, stand_in, looked.shares, range(len(looked.slots)))
            facts |= _totals(looked, self._parts[name])
            if looked.is_padding:
                facts["slots"] = looked.slots
            return MadeBatch(looked.step, {name: fields}, {name: facts})
        made = MadeBatch(looked.step, {}, {})
        for name, parts in self._parts.items():
            shares = [share for share in looked.shares if share.part in parts]
            places = np.sort(np.concatenate([np.zeros(0, np.int64), *(share.at for share in shares)]))
            made.fields[name], made.facts[name] = self._make(
                self._recipes[name], looked, stand_in, shares, places.tolist()
            )
            made.facts[name]["slots"] = places
            made.facts[name] |= _totals(looked, parts)
        return made

    def _make(
        self,
        recipe: Recipe[Any],
        looked: Looked,
        stand_in: StandIn,
        shares: list[PartShare],
        places: Sequence[int],
    ) -> tuple[Batch, Batch]:
        """Return the fields and facts of one recipe's batch. ``places`` are the slots of its rows."""
        work = recipe.start(len(places))
        rows = _RowsToFill(len(places))
        for share in shares:
            rows.take(self._catalog, share, np.searchsorted(places, share.at).tolist())
        bad: list[BadSample] = []
        attempt = 1
        while rows.records or rows.bad:
            failed = sorted([*rows.bad, *recipe.fill(work, rows.records)], key=lambda each: each.index)
            rows.begin_again()
            instead_of = {
                each.index: stand_in(int(looked.slots[places[each.index]]), attempt)
                for each in failed
                if each.outcome == "replaced"
            }
            for each in failed:
                outcome = "empty" if instead_of.get(each.index, each) is None else each.outcome
                bad.append(self._report(each, rows, places[each.index], attempt, outcome))
            for index, instead in instead_of.items():
                rows.used[index] = None
                if instead is not None:
                    [share] = self._catalog.shares(instead)
                    rows.take(self._catalog, share, [index])
            attempt += 1
        used = rows.used
        numbers = np.array([item.row if item else -1 for item in used], dtype=np.int64)
        facts = {
            "ids": [item.id if item else "" for item in used],
            "sources": [item.source if item else "" for item in used],
            "rows": numbers,
            "bad": sorted(bad, key=lambda each: each.slot),
        }
        if self._padded:
            facts["valid"] = numbers >= 0
        if self._costs:
            costs = np.zeros(len(places), dtype=np.int64)
            for share in shares:
                costs[np.searchsorted(places, share.at)] = self._catalog.costs_of(share.part, share.uses)
            facts["cost"] = costs
        return recipe.finish(work), facts

    def _report(self, bad: Bad, rows: "_RowsToFill", place: int, attempt: int, outcome: str) -> BadSample:
        item = rows.used[bad.index]
        assert item is not None
        [group] = self._catalog.group_names([item.row])
        if bad.outcome == "replaced" and (not self._replace or attempt > _MAX_SUBSTITUTES):
            tried = f"; {attempt - 1} substitutes are bad as well" if attempt > 1 else ""
            raise ContentError(group, item.name(bad.member), bad.reason + tried)
        return BadSample(place, item.row, group, item.name(bad.member), bad.reason, outcome, bad.member)


def _has_no_sample(facts: Batch) -> bool:
    """Return whether no row of a recipe's batch has a sample. A pack has none if all of its members are bad."""
    lost = Counter(bad.slot for bad in facts["bad"] if bad.member is not None)
    places = facts.get("slots", range(len(facts["rows"])))
    rows = zip(places, facts["rows"], facts["ids"], strict=True)
    return all(row < 0 or (isinstance(own, list) and lost[place] == len(own)) for place, row, own in rows)


def _totals(looked: Looked, parts: Sequence[int]) -> dict[str, int | float]:
    """Return the planned sums over all ranks for one recipe. They are equal on every rank.

    The number of samples is at least 1, so that a sum of losses divided by it is 0 if a step has no sample.
    """
    found: Counter[str] = Counter()
    for part in parts:
        found.update(looked.totals.get(part, {}))
    return {f"global_{name}": max(1, total) if name == "samples" else total for name, total in found.items()}


class _RowsToFill:
    """Records that a recipe is to fill in, by row of its batch, and samples that could not be read."""

    def __init__(self, size: int) -> None:
        self.used: list[Item | None] = [None] * size
        self.begin_again()

    def begin_again(self) -> None:
        self.records: dict[int, tuple[Item, Any]] = {}
        self.bad: list[Bad] = []

    def take(self, catalog: Catalog, share: PartShare, indices: list[int]) -> None:
        reader = catalog.reader(share.part)
        located = reader.locate(share.uses)
        found = [place for place in located if not isinstance(place, ContentError)]
        records = reader.read(found)
        if len(found) < len(located):
            read = iter(records)
            records = [place if isinstance(place, ContentError) else next(read) for place in located]
        for index, item, record in zip(indices, share.items, records, strict=True):
            self.used[index] = item
            if isinstance(record, ContentError):
                self.bad.append(Bad(index, record.reason))
            else:
                self.records[index] = (item, record)
