"""What a ledger reports of steps: whether they were made, which samples were bad, and losses. Reads no data."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from penstock.feed import Feed
from penstock.feed.batches import BadSample
from penstock.observe.lines import BadEntry, LedgerLine, line_timeline
from penstock.observe.placing import Placing, SampleLosses
from penstock.observe.runlog import RunLog


class SampleLoss(NamedTuple):
    """A reported loss.

    Attributes:
        member: ``group:id`` of the member of a pack; empty for a whole sample.
        loss: Loss.
    """

    member: str
    loss: float


class PageLedger:
    """What a ledger reports of some steps.

    Args:
        feed: Feed of the run.
        logs: Ledgers of the run, one per node.
        steps: Steps of the pages.

    Raises:
        ValueError: If the ledger is empty or belongs to another run.
    """

    def __init__(self, feed: Feed, logs: Sequence[Path], steps: Container[int]) -> None:
        self._feed = feed
        self._lines: list[LedgerLine] = []  # with the part of their steps that counts
        self._losses: dict[tuple[int, int], dict[int, list[SampleLoss]]] = {}  # by step and rank, then by slot
        placing = Placing(feed)
        for each in RunLog(logs, feed):
            if each.used is not None:
                placing.take_bad(each.used)
                first, after = each.used["steps"]
                counted = [first, min(after, each.end)]
                if any(step in steps for step in range(*counted)):
                    line = each.used.copy()
                    line["steps"] = counted
                    self._lines.append(line)
            elif each.losses is not None and any(step in steps for step in each.losses["steps"]):
                for found in placing.placed(each.losses, each.end):
                    self._take(each.losses["rank"], found)

    def _take(self, rank: int, found: SampleLosses) -> None:
        slots = self._losses.setdefault((found.step, rank), {})
        members = found.member or [""] * len(found.loss)
        for slot, member, loss in zip(found.slot.tolist(), members, found.loss.tolist(), strict=True):
            slots.setdefault(slot, []).append(SampleLoss(member, loss))

    def fits(self, step: int, world: int) -> bool:
        """Return whether a step can be shown: it was made with these ranks and batch size, or is not in the ledger."""
        try:
            self.step(step, world)
        except ValueError:
            return False
        return True

    def step(self, step: int, world: int) -> "LedgeredStep":
        """Return what is reported of a step.

        Raises:
            ValueError: If the step was made with another number of ranks or another batch size.
        """
        lines = [line for line in self._lines if step in range(*line["steps"])]
        for line in lines:
            if line["world"] != world:
                raise ValueError(f"the ledger has step {step} of {line['world']} ranks: add --world {line['world']}")
            if line_timeline(line).signature(step) != self._feed.timeline(world).signature(step):
                raise ValueError(
                    f"the ledger has step {step} with another batch size: pass a state of that run as --state"
                )
        losses = {rank: slots for (each, rank), slots in self._losses.items() if each == step}
        return LedgeredStep(step, {line["rank"]: line for line in lines}, losses)


@dataclass(frozen=True, slots=True)
class LedgeredStep:
    """What a ledger reports of one step.

    Attributes:
        step: Step.
        lines: Lines that contain the step, by rank.
        losses: Losses of samples, by rank and slot.
    """

    step: int
    lines: Mapping[int, LedgerLine]
    losses: Mapping[int, Mapping[int, Sequence[SampleLoss]]]

    def losses_of(self, rank: int, slot: int) -> Sequence[SampleLoss]:
        """Return the losses of a sample: none, one, or one per member of a pack."""
        return self.losses.get(rank, {}).get(slot, ())

    def made(self, rank: int) -> str:
        """Return when and where a rank made the step, in words."""
        line = self.lines.get(rank)
        if line is None:
            return f"The ledger does not have this step of rank {rank}."
        time = datetime.fromtimestamp(line["time"], UTC).strftime("%Y-%m-%d %H:%M UTC")
        return f"In the ledger: rank {rank} on {line['host']}, written {time}."

    def differences(self, rank: int, slot: int, bad: Sequence[BadSample]) -> list[str]:
        """Return how the bad samples of a slot differ from those in the ledger, in words."""
        line = self.lines.get(rank)
        if line is None:
            return []
        reported = {_key(entry): entry for entry in line["bad"] if (entry["step"], entry["slot"]) == (self.step, slot)}
        found = {(each.row, each.member): each for each in bad}
        gone = [entry for key, entry in reported.items() if key not in found]
        new = [each for key, each in found.items() if key not in reported]
        return [
            *(f"In the run, {entry['group']}:{entry['id']} was bad here: {entry['reason']}" for entry in gone),
            *(f"In the run, {each.group}:{each.id} was not bad here" for each in new),
        ]


def _key(entry: BadEntry) -> tuple[int, int | None]:
    return entry["row"], entry.get("member")
