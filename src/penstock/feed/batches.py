"""What a batch holds: recipes' fields, ids, sources, rows and bad samples, and the count of bad ones. Reads no data."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from penstock.recipes.recipe import id_text

_ENOUGH = 1_000  # samples before the share of bad ones means something


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


class MadeBatch(NamedTuple):
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


def _as_tensor(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    import torch

    return torch.from_numpy(value)


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


class TooManyBad(RuntimeError):
    """More samples than ``max_bad`` allows could not be decoded."""


class Tally:
    """Counts samples of batches; past a share of ``max_bad`` bad ones it raises, from 1,000 samples on."""

    def __init__(self, max_bad: float) -> None:
        self._max_bad = max_bad
        self._seen = 0
        self._bad = 0

    def add(self, batch: dict[str, Any]) -> None:
        """Count a batch.

        Raises:
            TooManyBad: with the reason of the last bad sample.
        """
        bad = []
        for each in flat_batches(batch):
            self._seen += sum(1 if isinstance(id, str) else len(id) for id in each["ids"])  # a pack has several
            bad += each["bad"]
        self._bad += len(bad)
        if bad and self._seen >= _ENOUGH and self._bad > self._max_bad * self._seen:
            raise TooManyBad(
                f"{self._bad} of {self._seen} samples were bad, more than max_bad: {self._max_bad} allows "
                f"from {_ENOUGH:,} samples on; the last: {bad[-1].group}:{bad[-1].id}: {bad[-1].reason}"
            )
