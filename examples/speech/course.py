"""The course of a run: what was set at the start and what was changed on the way, each change at its step.

Pure. What applies at a step follows from the list of changes alone, so a run that is resumed from before a change makes
it again, at the same step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Change:
    """Something an operator had done, from a step on. What was done once (a checkpoint, say) changes no setting."""

    step: int
    key: str
    value: Any


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be changed while a run goes on, besides its mixture."""

    lr: float
    log_every: int


@dataclass(frozen=True, slots=True)
class Course:
    settings: Settings
    mixture: tuple[Mapping[str, Any], ...]
    changes: tuple[Change, ...] = ()

    def changed(self, change: Change) -> "Course":
        return replace(self, changes=(*self.changes, change))

    def at(self, step: int) -> Settings:
        """The settings of a step."""
        names = asdict(self.settings)
        past = sorted((c for c in self.changes if c.step <= step and c.key in names), key=lambda c: c.step)
        return replace(self.settings, **{change.key: change.value for change in past})

    def mixtures(self) -> list[Mapping[str, Any]]:
        """The whole schedule of mixtures; of two for the same sample the later order counts."""
        made = [change.value for change in self.changes if change.key == "mixture"]
        return [entry for _, entry in sorted({entry["at"]: entry for entry in [*self.mixture, *made]}.items())]


def to_records(changes: Sequence[Change]) -> list[dict[str, Any]]:
    return [asdict(change) for change in changes]


def from_records(records: Sequence[Mapping[str, Any]]) -> tuple[Change, ...]:
    return tuple(Change(**record) for record in records)
