"""Looked-up samples -> a batch: records are read, recipes fill rows, bad samples are replaced. Knows no file format."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from penstock.feed.catalog import Catalog, Share
from penstock.feed.lookup import Looked
from penstock.plan.order import Order
from penstock.readers.errors import ContentError
from penstock.recipes.recipe import Bad, Item, Recipe, id_text

log = logging.getLogger(__name__)

_ATTEMPTS = 8  # substitutes tried for a bad sample


@dataclass(frozen=True, slots=True)
class BadSample:
    """A planned sample that could not be used, and why.

    Attributes:
        slot: its place in the rank's batch.
        row: the item's number in the run.
        group: the name of the group that it lies in.
        id: of the item; of a member of a pack, its own.
        outcome: ``replaced`` by another sample; ``empty``: its place was left empty, as in a finite run; ``padded`` or
            ``skipped`` by its recipe.
        member: which part of the sample, where a sample has several.
    """

    slot: int
    row: int
    group: str
    id: str
    reason: str
    outcome: str = "replaced"
    member: int | None = None


class Made(NamedTuple):
    """A batch as recipes leave it: still with arrays where the trainer gets tensors.

    A worker process hands this over, so it does without torch where the recipes do.

    Attributes:
        fields: what each recipe made, by its name.
        facts: ids, sources, rows and bad samples, for each recipe.
    """

    step: int
    fields: dict[str, dict[str, Any]]
    facts: dict[str, dict[str, Any]]

    def batch(self) -> dict[str, Any]:
        """As the trainer gets it: flat for one recipe, by recipe name for several."""
        found = {
            name: {**{key: _as_tensor(value) for key, value in fields.items()}, **self.facts[name]}
            for name, fields in self.fields.items()
        }
        if len(found) > 1:
            return {"step": self.step, **found}
        [only] = found.values()
        return {**only, "step": self.step}


def names_in(batch: dict[str, Any]) -> list[str]:
    """The ids of one recipe's batch as texts, empty for padding."""
    return [id_text(each) for each in batch["ids"]]


def flat_batches(batch: dict[str, Any]) -> list[dict[str, Any]]:
    """The batches of the single recipes of a batch; a flat one is the only one."""
    return [batch] if "ids" in batch else [each for each in batch.values() if isinstance(each, dict)]


def rows_in_order(batch: dict[str, Any]) -> list[int]:
    """The rows of a batch by slot; with several recipes each has some of the slots."""
    if "rows" in batch:
        rows: list[int] = batch["rows"].tolist()
        return rows
    by_slot = {slot: row for each in flat_batches(batch) for slot, row in zip(each["slots"], each["rows"], strict=True)}
    return [int(by_slot[slot]) for slot in sorted(by_slot)]


class Maker:
    """Makes batches. Any number of threads may use it.

    Args:
        replace: whether a bad sample is replaced; else it raises ``ContentError``.
        padded: whether batches may have padding, which ``valid`` marks then.
    """

    def __init__(
        self, catalog: Catalog, recipes: Mapping[str, Recipe[Any]], order: Order, *, replace: bool, padded: bool
    ) -> None:
        self._catalog = catalog
        self._recipes = recipes
        self._order = order
        self._parts = catalog.recipes()
        self._replace = replace
        self._padded = padded
        self._said_empty = False

    def make(self, looked: Looked) -> Made:
        made = self._made(looked)
        if not self._said_empty and all(map(_has_no_sample, made.facts.values())):
            self._said_empty = True
            log.warning(
                "step %d: the batch of this rank has no sample: the mean of its losses is NaN; "
                "divide their sum by a number over all ranks, such as global_label_tokens",
                looked.step,
            )
        return made

    def _made(self, looked: Looked) -> Made:
        if len(self._recipes) == 1:
            [name] = self._recipes
            fields, facts = self._make(self._recipes[name], looked, looked.shares, range(len(looked.slots)))
            facts |= _totals(looked, self._parts[name])
            return Made(looked.step, {name: fields}, {name: facts})
        made = Made(looked.step, {}, {})
        for name, parts in self._parts.items():
            shares = [share for share in looked.shares if share.part in parts]
            places = np.sort(np.concatenate([np.zeros(0, np.int64), *(share.at for share in shares)]))
            made.fields[name], made.facts[name] = self._make(self._recipes[name], looked, shares, places.tolist())
            made.facts[name]["slots"] = places
            made.facts[name] |= _totals(looked, parts)
        return made

    def _make(
        self, recipe: Recipe[Any], looked: Looked, shares: list[Share], places: Sequence[int]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """One recipe's rows; ``places`` are theirs in the rank's batch."""
        work = recipe.start(len(places))
        rows = _Rows(len(places))
        for share in shares:
            rows.take(self._catalog, share, np.searchsorted(places, share.at).tolist())
        bad: list[BadSample] = []
        attempt = 1
        while rows.records or rows.bad:
            failed = sorted([*rows.bad, *recipe.fill(work, rows.records)], key=lambda each: each.index)
            rows.begin_again()
            instead_of = {
                each.index: self._order.stand_in(int(looked.slots[places[each.index]]), attempt)
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
        return recipe.finish(work), facts

    def _report(self, bad: Bad, rows: "_Rows", place: int, attempt: int, outcome: str) -> BadSample:
        item = rows.used[bad.index]
        assert item is not None
        [group] = self._catalog.group_names([item.row])
        if bad.outcome == "replaced" and (not self._replace or attempt > _ATTEMPTS):
            tried = f"; {attempt - 1} other samples that were tried in this place are bad, too" if attempt > 1 else ""
            raise ContentError(group, item.name(bad.member), bad.reason + tried)
        return BadSample(place, item.row, group, item.name(bad.member), bad.reason, outcome, bad.member)


def _has_no_sample(facts: dict[str, Any]) -> bool:
    """Return whether no row of a recipe's batch has a sample; a pack has none if all of its members are bad."""
    lost = Counter(bad.slot for bad in facts["bad"] if bad.member is not None)
    places = facts.get("slots", range(len(facts["rows"])))
    rows = zip(places, facts["rows"], facts["ids"], strict=True)
    return all(row < 0 or (isinstance(own, list) and lost[place] == len(own)) for place, row, own in rows)


def _totals(looked: Looked, parts: Sequence[int]) -> dict[str, int]:
    """What the samples of all ranks add up to, for one recipe: planned, so that it is the same on every rank."""
    found: Counter[str] = Counter()
    for part in parts:
        found.update(looked.totals.get(part, {}))
    return {f"global_{name}": total for name, total in found.items()}


class _Rows:
    """What a recipe is to fill: records by row of its batch, and what could not even be read."""

    def __init__(self, size: int) -> None:
        self.used: list[Item | None] = [None] * size
        self.begin_again()

    def begin_again(self) -> None:
        self.records: dict[int, tuple[Item, Any]] = {}
        self.bad: list[Bad] = []

    def take(self, catalog: Catalog, share: Share, indices: list[int]) -> None:
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


def _as_tensor(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    import torch

    return torch.from_numpy(value)
