"""The contents of a batch: fields of recipes, ids, sources, rows and bad samples. Knows nothing of making them."""

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from penstock.recipes.recipe import id_text

Batch = dict[str, Any]
"""A batch as the trainer gets it: see ``Feed.batch`` for its keys."""

_STEP_FIELDS = ("step", "unit", "units")
_ENOUGH_SAMPLES = 1_000  # before the share of bad ones means something


class BadSample(NamedTuple):
    """A planned sample that could not be used, and why.

    A tuple, because trainers move batches to a device value by value: Lightning refuses frozen dataclasses.

    Attributes:
        slot: Place in the rank's batch.
        row: Number of the item in the run.
        group: Name of the group that contains the item.
        id: Id of the item, or of the bad member of a pack.
        reason: Description of what is wrong.
        outcome: ``replaced`` by another sample; ``empty``: the place was left empty, as in a finite run; ``padded`` or
            ``skipped`` by the recipe.
        member: Number of the bad member of a pack; None for a whole sample.
    """

    slot: int
    row: int
    group: str
    id: str
    reason: str
    outcome: str = "replaced"
    member: int | None = None


class MadeBatch(NamedTuple):
    """A batch as recipes return it, with arrays where the trainer gets tensors.

    Worker processes send this to the trainer, so that they need no torch unless a recipe does.

    Attributes:
        step: Step of the batch.
        fields: Fields that each recipe made, by name of the recipe.
        facts: Ids, sources, rows and bad samples, by name of the recipe.
        unit: In batches by length, the number of the unit, and how many units the rank has in this step.
    """

    step: int
    fields: dict[str, Batch]
    facts: dict[str, Batch]
    unit: tuple[int, int] | None = None

    def batch(self) -> Batch:
        """Return the batch with tensors: flat for one recipe, by name for several."""
        found = {
            name: {**{key: _as_tensor(value) for key, value in fields.items()}, **self.facts[name]}
            for name, fields in self.fields.items()
        }
        where = {"step": self.step}
        if self.unit is not None:
            where |= {"unit": self.unit[0], "units": self.unit[1]}
        if len(found) > 1:
            return {**where, **found}
        [only] = found.values()
        return {**only, **where}


MadeUnits = list[MadeBatch]
"""The batches of one step: one per unit in batches by length, else a single one."""


def _as_tensor(value: object) -> object:
    if not isinstance(value, np.ndarray):
        return value
    import torch

    return torch.from_numpy(value)


def is_last_unit(batch: Batch) -> bool:
    """Return whether a batch is the last one that its rank gets for a step."""
    return "unit" not in batch or bool(batch["unit"] + 1 == batch["units"])


def placed_in_step(units: list[Batch]) -> list[Batch]:
    """Return the batches of a step with slots that count over all of its units."""
    if len(units) == 1:
        return units
    first = 0
    found = []
    for unit in units:
        found.append(_placed(unit, first))
        first += count_slots(unit)
    return found


def count_slots(batch: Batch) -> int:
    """Return the number of planned places in a batch; 0 for a unit without a sample, which is one row of padding."""
    return sum(
        int((each["slots"] >= 0).sum()) if "slots" in each else len(each["rows"]) for each in flat_batches(batch)
    )


def _placed(batch: Batch, first: int) -> Batch:
    """Return a batch of one recipe or of several with slots that count from ``first``."""
    if "ids" not in batch:
        return {name: _placed(value, first) if isinstance(value, dict) else value for name, value in batch.items()}
    slots = batch["slots"] if "slots" in batch else np.arange(len(batch["rows"]))
    bad = [each._replace(slot=first + each.slot) for each in batch["bad"]]
    return {**batch, "slots": first + slots, "bad": bad}


def names_in(batch: Batch) -> list[str]:
    """Return the ids of one recipe's batch as strings, empty for padding."""
    return [id_text(each) for each in batch["ids"]]


def flat_batches(batch: Batch) -> list[Batch]:
    """Return the batch of each recipe. A flat batch is returned as the only one."""
    return [batch] if "ids" in batch else [each for each in batch.values() if isinstance(each, dict)]


def only_fields(batch: Batch, fields: Collection[str]) -> Batch:
    """Return a batch with some of its fields. A field that the batch does not have is left out.

    Args:
        batch: Batch of one recipe or of several. Of several, the fields of each are selected.
        fields: Names of the fields to keep.
    """
    if "ids" not in batch:
        kept = {name: only_fields(each, fields) for name, each in batch.items() if isinstance(each, dict)}
        return kept | {name: batch[name] for name in _STEP_FIELDS if name in fields and name in batch}
    return {name: value for name, value in batch.items() if name in fields}


class TooManyBad(RuntimeError):
    """The share of bad samples exceeds ``max_bad``.

    Examples:
        >>> import penstock
        >>> with penstock.open("run.yaml", max_bad=0.01).loader() as loader:
        ...     try:
        ...         batch = next(loader)
        ...     except penstock.TooManyBad as error:
        ...         print(error)
    """


class Tally:
    """Counts the samples of batches, and raises if too many are bad.

    Args:
        max_bad: Maximum share of bad samples. It applies from 1,000 samples on.
    """

    def __init__(self, max_bad: float) -> None:
        self._max_bad = max_bad
        self._seen = 0
        self._bad = 0

    def add(self, batch: Batch) -> None:
        """Count a batch.

        Raises:
            TooManyBad: If the share of bad samples exceeds ``max_bad``.
        """
        bad = []
        for each in flat_batches(batch):
            self._seen += sum(1 if isinstance(id, str) else len(id) for id in each["ids"])  # a pack has several
            bad += each["bad"]
        self._bad += len(bad)
        if bad and self._seen >= _ENOUGH_SAMPLES and self._bad > self._max_bad * self._seen:
            raise TooManyBad(
                f"{self._bad} of {self._seen} samples were bad, more than max_bad: {self._max_bad} allows "
                f"from {_ENOUGH_SAMPLES:,} samples on; the last: {bad[-1].group}:{bad[-1].id}: {bad[-1].reason}"
            )
